"use strict";
// Refresh the parts of a page that change, every second.
(function () {
  document.querySelectorAll("[data-follow]").forEach(function (part) {
    let misses = 0;
    function again(after) { window.setTimeout(ask, after); }
    function ask() {
      // Wait while the page is hidden or the user is selecting text.
      const marked = window.getSelection();
      if (document.hidden || (marked && !marked.isCollapsed && part.contains(marked.anchorNode))) {
        again(3000);
        return;
      }
      fetch(part.dataset.follow, { credentials: "same-origin", cache: "no-store" }).then(function (answer) {
        if (!answer.ok) throw new Error(String(answer.status));
        const next = answer.headers.get("x-follow");
        if (next === "reload") { window.location.reload(); return; }
        return answer.text().then(function (html) {
          misses = 0;
          // Rendered by the server, which escapes all data.
          const made = new DOMParser().parseFromString(html, "text/html");
          part.replaceChildren.apply(part, Array.from(made.body.childNodes));
          part.dispatchEvent(new CustomEvent("followed", { bubbles: true }));
          if (next !== "stop") again(1000);
        });
      }).catch(function () {
        misses += 1;
        part.dataset.lost = misses > 3 ? "true" : "false";
        again(Math.min(10000, 1000 * misses));
      });
    }
    again(1000);
  });
})();
