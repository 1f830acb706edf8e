(() => {
  const form = document.getElementById("filters");
  if (!form) return;
  const cards = [...document.querySelectorAll(".case")];
  const said = document.getElementById("shown");
  const fits = (card, { set, system, kind }) =>
    (!set || card.dataset.set === set || card.dataset.category === set) &&
    ((!system && !kind) ||
      card.dataset.tags.split(" ").some((tag) => {
        const [who, what] = tag.split(":");
        return (!system || who === system) && (!kind || what === kind);
      }));
  const apply = () => {
    const wanted = Object.fromEntries(new FormData(form));
    let count = 0;
    for (const card of cards) {
      card.hidden = !fits(card, wanted);
      count += !card.hidden;
    }
    said.textContent = `${count} of ${cards.length} shown`;
  };
  form.addEventListener("change", apply);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(apply));
  form.hidden = false;
  apply();
})();
