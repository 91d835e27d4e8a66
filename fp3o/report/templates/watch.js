// Counts errors and what the content security policy blocked, where a test can see them.
const root = document.documentElement;
root.dataset.errors = "0";
root.dataset.blocked = "0";
addEventListener("error", () => (root.dataset.errors = String(Number(root.dataset.errors) + 1)));
addEventListener("unhandledrejection", () => (root.dataset.errors = String(Number(root.dataset.errors) + 1)));
addEventListener("securitypolicyviolation", () => (root.dataset.blocked = String(Number(root.dataset.blocked) + 1)));
