// The menu that saves what is seen.

import type { Context, View } from "./context";
import { h } from "./dom";
import { csv, download, json, png, svg } from "./export";

export function saveMenu(view: () => View, context: Context, linked: boolean): HTMLElement {
  const summary = h("summary", {}, "Save");
  const menu = h("details", { class: "menu" }, summary);
  const item = (label: string, act: () => unknown) => {
    const run = async () => {
      menu.open = false;
      try {
        await act();
      } catch (error) {
        summary.textContent = "Not available here";
        summary.title = (error as Error).message;
        context.actions.announce((error as Error).message);
      }
    };
    return h("button", { type: "button", onclick: run }, label);
  };
  const file = (kind: string) => `mixlens-${context.state.view}.${kind}`;
  const picture = () => png(view(), context);
  const items = [
    item("Picture (PNG)", async () => download(file("png"), await picture(), "image/png")),
    item("Drawing (SVG)", () => download(file("svg"), svg(view(), context), "image/svg+xml")),
    item("Numbers (CSV)", () => download(file("csv"), csv(view().rows(context)), "text/csv")),
    item("Numbers (JSON)", () => download(file("json"), json(view(), context), "application/json")),
    item("Copy the picture", () =>
      navigator.clipboard.write([new ClipboardItem({ "image/png": picture() })]),
    ),
  ];
  if (linked)
    items.push(
      item("Copy a link to this view", () => navigator.clipboard.writeText(location.href)),
    );
  menu.append(h("div", {}, ...items));
  menu.addEventListener("keydown", (event) => {
    if (event.key === "Escape") menu.open = false;
  });
  return menu;
}
