"""Pictures that come back: only regular files of the session's own folder, and only within limits."""

from __future__ import annotations

import base64
from dataclasses import replace

from speceyes.imaging.decode import DecodedImage
from speceyes.sandbox.conformance.checks import LIMITS, Checks, Ground, must
from speceyes.sandbox.conformance.samples import a_picture, png_bomb

CHECKS = Checks("pictures")


@CHECKS.add("Saved and shown pictures come back as they are, once")
async def honest_pictures(ground: Ground) -> None:
    async with ground.session(images=[DecodedImage.of_pixels(a_picture((64, 48)))]) as session:
        outcome = await session.run(
            """
            from PIL import Image
            image = Image.open(image_path)
            image.crop((0, 0, 32, 24)).save("crop.png")
            image.convert("L").save("grey.jpg")
            image.resize((7, 5)).show()
            """
        )
        must(outcome.error is None, f"the step failed: {outcome.error}")
        sizes = sorted(picture.image.size for picture in outcome.pictures)
        must(sizes == [(7, 5), (32, 24), (64, 48)], f"the pictures have the sizes {sizes}, notes {outcome.notes}")
        must(outcome.pictures[1].image.pixels.getpixel((0, 0)) == (200, 30, 30), "the colours are not those saved")
        outcome = await session.run("pass")
        must(not outcome.pictures, "a picture comes back twice")
        outcome = await session.run("image.crop((0, 0, 10, 10)).save('crop.png')")
        must([one.image.size for one in outcome.pictures] == [(10, 10)], "a picture that was written anew is not seen")


@CHECKS.add("A link in a picture's place is not followed")
async def linked_picture(ground: Ground) -> None:
    async with ground.session(images=[DecodedImage.of_pixels(a_picture((64, 48)))]) as session:
        outcome = await session.run(
            f"""
            os.symlink(image_path, "a.png")
            os.symlink({str(ground.host.file)!r}, "b.png")
            os.symlink("/dev/zero", "c.png")
            os.symlink("/", "folder.png")
            os.symlink("/tmp", "round")
            """
        )
        must(not outcome.pictures, "a link came back as a picture")
        must(any("link" in note for note in outcome.notes), f"nobody is told why: {outcome.notes}")
        await session.works()


@CHECKS.add("A pipe, a folder or a device in a picture's place holds nothing up")
async def odd_files(ground: Ground) -> None:
    async with ground.session() as session:
        outcome = await session.run(
            "os.mkfifo('a.png')\nos.mkdir('b.png')\nos.mkfifo('b.png/c.jpg')\nopen('d.png', 'w')"
        )
        must(outcome.error is None and not outcome.pictures, f"{outcome.error}, {outcome.pictures}")
        await session.works()


@CHECKS.add("A picture that is swapped for another file while it is read does no harm")
async def swapped_picture(ground: Ground) -> None:
    async with ground.session() as session:
        await session.run(
            """
            import threading
            from PIL import Image
            Image.new("RGB", (9, 9)).save("good.png")
            stop = False
            def swap():
                while not stop:
                    for source in ("/etc/passwd", "/dev/zero", "/tmp/good.png"):
                        try:
                            os.symlink(source, "next")
                            os.replace("next", "swap.png")
                        except OSError:
                            pass
            threading.Thread(target=swap, daemon=True).start()
            """
        )
        for _ in range(3):
            outcome = await session.run("pass")
            must(outcome.error is None, f"the step failed: {outcome.error}")
        await session.run("stop = True")
        await session.works()


@CHECKS.add("Of five hundred pictures only the first few come back, and the model is told")
async def many_pictures(ground: Ground) -> None:
    async with ground.session() as session:
        outcome = await session.run(
            """
            from PIL import Image
            for number in range(480):
                Image.new("RGB", (8, 8)).save("picture%03d.png" % number)
            """
        )
        must(len(outcome.pictures) == LIMITS.pictures, f"{len(outcome.pictures)} came back, {outcome.error}")
        must(any("left out" in note for note in outcome.notes), f"the notes are {outcome.notes}")


@CHECKS.add("A picture of 20,000 x 20,000 pixels is left out, and the model is told")
async def large_picture(ground: Ground) -> None:
    bomb = base64.b64encode(png_bomb(20_000)).decode("ascii")
    async with ground.session() as session:
        outcome = await session.run(f"import base64\nopen('bomb.png', 'wb').write(base64.b64decode({bomb!r}))")
        must(not outcome.pictures, "a picture beyond the limits came back")
        must(any("left out" in note for note in outcome.notes), f"the notes are {outcome.notes}, {outcome.error}")


@CHECKS.add("A picture's file that is too large is left out")
async def large_file_of_a_picture(ground: Ground) -> None:
    async with ground.session(replace(LIMITS, picture_bytes=100_000)) as session:
        outcome = await session.run("open('noise.png', 'wb').write(os.urandom(200_000))")
        must(not outcome.pictures and any("left out" in note for note in outcome.notes), f"{outcome.notes}")


@CHECKS.add("Files that only pretend to be pictures are left out")
async def pretended_pictures(ground: Ground) -> None:
    async with ground.session() as session:
        outcome = await session.run(
            r"""
            open("text.png", "w").write("no picture")
            open("empty.jpg", "w")
            open("head.png", "wb").write(b"\x89PNG\r\n\x1a\n" + b"x" * 99)
            open("page.png", "w").write("%!PS\n/x (a) def showpage")
            open("vector.png", "w").write("<svg xmlns='http://www.w3.org/2000/svg'><image href='file:///etc/passwd'/></svg>")
            """
        )
        must(outcome.error is None and not outcome.pictures, f"{outcome.error}, {outcome.pictures}")
        must(len([note for note in outcome.notes if "left out" in note]) == 5, f"the notes are {outcome.notes}")


@CHECKS.add("Figures of Matplotlib come back when they are shown")
async def figures(ground: Ground) -> None:
    async with ground.session() as session:
        outcome = await session.run(
            """
            import importlib.util
            if importlib.util.find_spec("matplotlib") is None:
                print("NONE")
            else:
                import matplotlib.pyplot as plt
                for height in (1, 2):
                    plt.figure(figsize=(2, height))
                    plt.plot([1, 2])
                plt.show()
                plt.show()
                plt.figure(figsize=(3, 1))
                plt.plot([3, 1])
                plt.savefig("saved.png")
            """
        )
        must(outcome.error is None, f"the step failed: {outcome.error}")
        sizes = [picture.image.size for picture in outcome.pictures]
        must("NONE" in outcome.stdout or sizes == [(200, 100), (200, 200), (300, 100)], f"the figures have {sizes}")


@CHECKS.add("Arrays shown with OpenCV come back, where it is there")
async def opencv(ground: Ground) -> None:
    async with ground.session() as session:
        outcome = await session.run(
            """
            import importlib.util
            import numpy as np
            if importlib.util.find_spec("cv2") is None:
                print("NONE")
            else:
                import cv2
                cv2.imshow("window", np.full((30, 50, 3), 200, np.uint8))
                cv2.waitKey(0)
                cv2.imwrite("saved.jpg", np.zeros((20, 10), np.uint8))
            """
        )
        must(outcome.error is None, f"the step failed: {outcome.error}")
        sizes = [picture.image.size for picture in outcome.pictures]
        must("NONE" in outcome.stdout or sizes == [(50, 30), (10, 20)], f"the pictures have {sizes}")
