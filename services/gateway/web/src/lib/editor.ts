import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { yaml } from "@codemirror/lang-yaml";
import { HighlightStyle, syntaxHighlighting } from "@codemirror/language";
import { EditorState, RangeSetBuilder, StateEffect, StateField } from "@codemirror/state";
import { Decoration, type DecorationSet, drawSelection, EditorView, highlightActiveLine, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";

/** Mark is an error at a line. */
export interface Mark { line: number; message: string }

export interface Handle {
  set(text: string): void;
  mark(marks: Mark[]): void;
  destroy(): void;
}

interface Options { value: string; label: string; yaml: boolean; onchange: (text: string) => void; onsave: () => void }

const setMarks = StateEffect.define<Mark[]>();
const marked = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update(set, transaction) {
    set = set.map(transaction.changes);
    for (const effect of transaction.effects) {
      if (!effect.is(setMarks)) continue;
      const builder = new RangeSetBuilder<Decoration>();
      const seen = new Set<number>();
      for (const mark of [...effect.value].sort((a, b) => a.line - b.line)) {
        if (mark.line < 1 || mark.line > transaction.state.doc.lines || seen.has(mark.line)) continue;
        seen.add(mark.line);
        builder.add(transaction.state.doc.line(mark.line).from, transaction.state.doc.line(mark.line).from, Decoration.line({ class: "cm-wrong", attributes: { title: mark.message } }));
      }
      set = builder.finish();
    }
    return set;
  },
  provide: (field) => EditorView.decorations.from(field),
});

const colours = HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], class: "hl-attr" }, { tag: [tags.string, tags.content], class: "hl-string" }, { tag: tags.comment, class: "hl-comment" },
  { tag: [tags.bool, tags.null, tags.number, tags.keyword], class: "hl-literal" }, { tag: tags.heading, class: "hl-keyword" },
]);

/** editor creates a CodeMirror editor whose style sheet has the nonce of the page. */
export function editor(host: HTMLElement, options: Options): Handle {
  const place = document.createElement("div");
  host.append(place);
  const nonce = document.querySelector<HTMLMetaElement>('meta[name="kaged-style"]')?.content ?? "";
  const view = new EditorView({
    parent: place,
    state: EditorState.create({
      doc: options.value,
      extensions: [
        EditorView.cspNonce.of(nonce), lineNumbers(), history(), drawSelection(), highlightActiveLine(), marked, EditorView.lineWrapping, syntaxHighlighting(colours),
        // Tab leaves the editor, so that keyboard users are not trapped in it.
        keymap.of([{ key: "Mod-s", run: () => (options.onsave(), true) }, ...defaultKeymap, ...historyKeymap]),
        ...(options.yaml ? [yaml()] : []),
        EditorView.contentAttributes.of({ "aria-label": options.label, spellcheck: "false", tabindex: "0" }),
        EditorView.updateListener.of((update) => { if (update.docChanged) options.onchange(update.state.doc.toString()); }),
      ],
    }),
  });
  return {
    set(text) {
      if (text !== view.state.doc.toString()) view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } });
    },
    mark: (marks) => view.dispatch({ effects: setMarks.of(marks) }),
    destroy() {
      view.destroy();
      place.remove();
    },
  };
}
