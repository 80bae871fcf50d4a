// The server's API key: stored for this browser tab, sent only to this server, and never part of a URL.

const NAME = "mnemolog-key";
const dialog = document.getElementById("key");
const field = document.getElementById("key-field");
const why = document.getElementById("key-why");
let asking = null;

export const key = () => sessionStorage.getItem(NAME) ?? "";

/** Asks for the key, with one dialog for all concurrent callers; resolves to whether a key was entered. */
export function askForKey(words) {
  asking ??= new Promise((resolve) => {
    why.textContent = words;
    field.value = "";
    dialog.returnValue = "";
    dialog.addEventListener("close", () => resolve(taken()), { once: true });
    dialog.showModal();
  }).finally(() => {
    asking = null;
  });
  return asking;
}

function taken() {
  if (dialog.returnValue !== "open") return false;
  sessionStorage.setItem(NAME, field.value.trim());
  field.value = "";
  return true;
}

export function forgetKey() {
  sessionStorage.removeItem(NAME);
}
