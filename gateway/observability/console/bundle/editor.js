// The editor of the console: CodeMirror 6 with SQL, in one file.
export { basicSetup, EditorView } from "codemirror";
export { Compartment, EditorState, Prec } from "@codemirror/state";
export { keymap } from "@codemirror/view";
export { indentWithTab } from "@codemirror/commands";
export { PostgreSQL, sql } from "@codemirror/lang-sql";
export { oneDark } from "@codemirror/theme-one-dark";
