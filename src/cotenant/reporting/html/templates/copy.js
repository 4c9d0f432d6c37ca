"use strict";
// Buttons that copy a command; without a clipboard they stay hidden.
for (const button of navigator.clipboard ? document.querySelectorAll("button.copy") : []) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(button.parentElement.querySelector("pre").textContent);
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = "Copy"), 1500);
  });
}
