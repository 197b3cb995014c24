/** Line is a line of a unified diff, with its line numbers on both sides. */
export interface Line {
  kind: "same" | "add" | "del" | "hunk" | "file" | "note";
  text: string;
  old: number | null;
  now: number | null;
}

export interface FileDiff {
  path: string;
  lines: Line[];
  added: number;
  removed: number;
}

/** parse parses a unified diff of any number of files. It counts the lines of a hunk, so a changed line that begins with "---" is not a header. */
export function parse(diff: string): FileDiff[] {
  const files: FileDiff[] = [];
  let file: FileDiff | null = null;
  let old = 0, now = 0, oldLeft = 0, nowLeft = 0;
  const open = (path: string) => files.push((file = { path, lines: [], added: 0, removed: 0 }));
  const add = (kind: Line["kind"], text: string, o: number | null, n: number | null) => {
    if (!file) open("");
    file!.lines.push({ kind, text, old: o, now: n });
  };
  const lines = diff.split("\n");
  if (lines[lines.length - 1] === "") lines.pop();
  for (let i = 0; i < lines.length; i++) {
    const line = lines[i]!;
    if (oldLeft > 0 || nowLeft > 0) {
      const mark = line[0] ?? " ";
      if (mark === "+") { add("add", line.slice(1), null, now++); nowLeft--; file!.added++; continue; }
      if (mark === "-") { add("del", line.slice(1), old++, null); oldLeft--; file!.removed++; continue; }
      if (mark === " " || line === "") { add("same", line.slice(1), old++, now++); oldLeft--; nowLeft--; continue; }
      if (mark === "\\") { add("note", line, null, null); continue; }
      oldLeft = nowLeft = 0;
    }
    const hunk = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@/.exec(line);
    if (hunk) {
      old = Number(hunk[1]); oldLeft = Number(hunk[2] ?? 1); now = Number(hunk[3]); nowLeft = Number(hunk[4] ?? 1);
      add("hunk", line, null, null);
    } else if (line.startsWith("--- ") && lines[i + 1]?.startsWith("+++ ")) {
      const from = line.slice(4).replace(/^a\//, ""), to = lines[i + 1]!.slice(4).replace(/^b\//, "");
      open(to === "/dev/null" ? from : to);
      i++;
    } else if (line.startsWith("diff ") || line.startsWith("index ") || line === "") {
      continue;
    } else add("note", line, null, null);
  }
  return files;
}

/** changed counts a diff's lines. */
export function changed(diff: string): { added: number; removed: number } {
  return parse(diff).reduce((sum, file) => ({ added: sum.added + file.added, removed: sum.removed + file.removed }), { added: 0, removed: 0 });
}
