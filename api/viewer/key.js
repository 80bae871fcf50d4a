// The key that the server asks for: kept for this browser tab, sent to this server alone, and never in an address.

const NAME = "mnemolog-key";
const dialog = document.getElementById("key");
const field = document.getElementById("key-field");
const why = document.getElementById("key-why");
let asking = null;

export const key = () => sessionStorage.getItem(NAME) ?? "";

/** Asks for the key, once for all who want one; resolves to whether somebody gave one. */
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
