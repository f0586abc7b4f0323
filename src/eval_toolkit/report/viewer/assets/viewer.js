"use strict";
// Progressive enhancement: arrow keys open the previous and next samples.
(function () {
  document.addEventListener("keydown", function (event) {
    if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
    if (event.target.closest("input, select, textarea, button, summary, [tabindex]")) return;
    const rel = { ArrowLeft: "prev", ArrowRight: "next" }[event.key];
    const link = rel && document.querySelector("a[rel='" + rel + "']");
    if (link) link.click();
  });
})();
