"""The report's pictures, as SVG inside the page: no script, and colours from its style sheet, so they follow light,
dark and print. Every system has a colour and a shape of its own, so that they can be told apart in grey too."""
