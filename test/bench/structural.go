package bench

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	structuralRounds = 11
	generatedFiles   = 1200
)

// goFolders are folders of Go's sources without broken test data, with some 2,400 files, half of them in the last
// folder.
var goFolders = []string{"net", "crypto", "encoding", "os", "internal"}

// measureStructural compares search.ast and edit.ast with ast-grep's own command, on a real tree of Go and on generated
// trees of TypeScript and Python. The floor of a search is the parser alone.
func measureStructural(ctx context.Context, w *world) ([]Figure, error) {
	sources, err := w.sources(ctx)
	if err != nil {
		return nil, err
	}
	typescript, err := w.generated(ctx, "typescript", ".ts", typescriptFile)
	if err != nil {
		return nil, err
	}
	python, err := w.generated(ctx, "python", ".py", pythonFile)
	if err != nil {
		return nil, err
	}
	astGrep := w.findPeer(ctx, "ast-grep", "ast-grep")
	var contests []contest
	for _, c := range []struct {
		lang, what, tree, pattern, rewrite string
		folders                            []string
	}{
		{"go", "statement", sources, "if err != nil { $$$BODY }", "", goFolders},
		{"go", "call", sources, "append($LIST, $ITEM)", "", goFolders},
		{"typescript", "call", typescript, "console.log($$$ARGS)", "", nil},
		{"typescript", "await", typescript, "await $CALL($$$ARGS)", "await traced($CALL, $$$ARGS)", nil},
		{"python", "assignment", python, "self.$NAME = $VALUE", "", nil},
		{"python", "call", python, "print($$$ARGS)", "logging.info($$$ARGS)", nil},
	} {
		folders := c.folders
		if len(folders) == 0 {
			folders = []string{"."}
		}
		args := append([]string{
			"run", "--no-ignore", "hidden", "--json=stream", "--lang", c.lang, "--pattern", c.pattern,
		}, folders...)
		contests = append(contests, contest{
			name: "search.ast/" + c.lang + "/" + c.what, project: c.tree, tool: "search.ast", rounds: structuralRounds,
			peer: astGrep, args: slices.Clone(args), same: sameNodes,
			params: map[string]any{"pattern": c.pattern, "lang": c.lang, "paths": folders},
		})
		if c.rewrite == "" {
			continue
		}
		// edit.ast accepts one folder.
		folder := folders[len(folders)-1]
		args = append(slices.Insert(args[:len(args)-len(folders)], 1, "--rewrite", c.rewrite), folder)
		contests = append(contests, contest{
			name: "edit.ast/" + c.lang + "/" + c.what, project: c.tree, tool: "edit.ast", rounds: structuralRounds,
			peer: astGrep,
			args: args, same: sameRewrites,
			params: map[string]any{"rewrites": map[string]string{c.pattern: c.rewrite}, "lang": c.lang, "path": folder},
		})
	}
	return w.withRunner(ctx, func(r *runner) ([]Figure, error) {
		if !slices.Contains(r.tools, "search.ast") {
			fmt.Fprintln(w.progress, "bench: this tool-runner has no search.ast")
			return nil, nil
		}
		figures, err := r.holdAll(ctx, w, contests)
		if err != nil {
			return figures, err
		}
		for lang, of := range map[string]struct {
			tree    string
			folders []string
		}{"go": {sources, goFolders}, "typescript": {typescript, []string{"."}}, "python": {python, []string{"."}}} {
			floor, err := parseBare(ctx, lang, of.tree, of.folders)
			if err != nil {
				return figures, err
			}
			floor.withFloors(figures, lang)
		}
		return figures, nil
	})
}

// node is a match in ast-grep's output, which has one per line.
type node struct {
	File  string
	Range struct {
		ByteOffset struct{ Start, End int }
	}
	Replacement string
}

func nodes(theirs []byte) ([]node, error) {
	var all []node
	for line := range bytes.Lines(theirs) {
		var n node
		if err := json.Unmarshal(line, &n); err != nil {
			return nil, err
		}
		n.File = "./" + strings.TrimPrefix(n.File, "./")
		all = append(all, n)
	}
	slices.SortFunc(all, func(a, b node) int {
		return cmp.Or(strings.Compare(a.File, b.File), cmp.Compare(a.Range.ByteOffset.Start, b.Range.ByteOffset.Start),
			cmp.Compare(b.Range.ByteOffset.End, a.Range.ByteOffset.End))
	})
	return all, nil
}

// sameNodes compares the result of search.ast with ast-grep's: the number, and the positions of the shown matches.
func sameNodes(ours string, theirs []byte) error {
	var answer struct {
		Matches []struct {
			File      string
			ByteStart int `json:"byte_start"`
			ByteEnd   int `json:"byte_end"`
		}
		Count     int
		Truncated bool
	}
	if err := json.Unmarshal([]byte(ours), &answer); err != nil {
		return err
	}
	all, err := nodes(theirs)
	if err != nil {
		return err
	}
	if answer.Count != len(all) || len(all) == 0 || len(answer.Matches) == 0 {
		return fmt.Errorf("%d matches, the peer found %d", answer.Count, len(all))
	}
	for _, m := range answer.Matches {
		if !slices.ContainsFunc(all, func(n node) bool {
			return n.File == m.File && n.Range.ByteOffset.Start == m.ByteStart && n.Range.ByteOffset.End == m.ByteEnd
		}) {
			return fmt.Errorf("the peer did not find %s:%d-%d", m.File, m.ByteStart, m.ByteEnd)
		}
	}
	return nil
}

// sameRewrites compares the changes of edit.ast with ast-grep's.
func sameRewrites(ours string, theirs []byte) error {
	var answer struct {
		Changes []struct {
			Path, After        string
			ByteStart, ByteEnd int
		}
		TotalReplacements int `json:"total_replacements"`
	}
	if err := json.Unmarshal([]byte(ours), &answer); err != nil {
		return err
	}
	all, err := nodes(theirs)
	if err != nil {
		return err
	}
	// Rewrites of edit.ast never overlap; the peer also lists those inside others.
	var last node
	all = slices.DeleteFunc(all, func(n node) bool {
		inside := n.File == last.File && n.Range.ByteOffset.Start < last.Range.ByteOffset.End
		if !inside {
			last = n
		}
		return inside
	})
	if answer.TotalReplacements != len(all) || len(all) == 0 {
		return fmt.Errorf("%d replacements, the peer makes %d", answer.TotalReplacements, len(all))
	}
	texts := map[string]bool{}
	for _, n := range all {
		texts[n.File+"\x00"+n.Replacement] = true
	}
	for _, c := range answer.Changes {
		if !texts[c.Path+"\x00"+c.After] {
			return fmt.Errorf("the peer does not make %q of anything in %s", c.After, c.Path)
		}
	}
	return nil
}

// generated returns a tree of files with the content of write.
func (w *world) generated(
	ctx context.Context, name, extension string, write func(*rand.Rand, *bytes.Buffer),
) (string, error) {
	dir := filepath.Join(w.dir, name)
	random := rand.New(rand.NewPCG(4, 4))
	for i := range generatedFiles {
		folder := filepath.Join(dir, fmt.Sprintf("module%02d", i%40))
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return "", err
		}
		var b bytes.Buffer
		for range 4 + random.IntN(8) {
			write(random, &b)
		}
		if err := os.WriteFile(filepath.Join(folder, fmt.Sprintf("file%04d%s", i, extension)), b.Bytes(), 0o644); err != nil {
			return "", err
		}
	}
	return dir, repository(ctx, dir, "*.tmp\n")
}

func typescriptFile(random *rand.Rand, b *bytes.Buffer) {
	n := random.IntN(1000)
	fmt.Fprintf(b, `
export interface Item%[1]d<T> { readonly id: string; value?: T; children: Array<Item%[1]d<T>> }

/** Loads item %[1]d. */
export async function load%[1]d(client: Client, id: string, { retries = %[2]d, verbose }: Options = {}): Promise<Item%[1]d<number> | null> {
  for (let attempt = 0; attempt < retries; attempt++) {
    try {
      const response = await client.fetch(`+"`/items/${id}?attempt=${attempt}`"+`, { method: "GET" });
      if (!response.ok) throw new Error("status " + response.status);
      const body = (await response.json()) as Item%[1]d<number>;
      if (verbose) console.log("loaded", body.id, { attempt });
      return { ...body, children: body.children.filter((c) => c.value !== undefined && c.value > %[2]d) };
    } catch (error) {
      console.log(error);
      await client.wait(2 ** attempt * 100);
    }
  }
  return null;
}

export class Store%[1]d extends Base implements Reader<string> {
  private readonly items = new Map<string, Item%[1]d<number>>();
  constructor(private client: Client, public name = "store-%[1]d") { super(name); }
  get size(): number { return this.items.size; }
  async refresh(ids: string[]): Promise<void> {
    const loaded = await Promise.all(ids.map((id) => load%[1]d(this.client, id)));
    loaded.forEach((item, i) => { if (item) this.items.set(ids[i], item); else console.log("missing", ids[i]); });
  }
}
`, n, 1+random.IntN(9))
}

func pythonFile(random *rand.Rand, b *bytes.Buffer) {
	n := random.IntN(1000)
	fmt.Fprintf(b, `
class Worker%[1]d(Base):
    """Works on queue %[1]d."""

    limit: int = %[2]d

    def __init__(self, queue, name="worker-%[1]d", *, retries=%[2]d, **options):
        super().__init__(name)
        self.queue = queue
        self.retries = retries
        self.options = {k: v for k, v in options.items() if v is not None}

    async def run(self):
        while not self.queue.empty():
            item = await self.queue.get()
            try:
                result = await self.handle(item, timeout=self.options.get("timeout", 30))
                print(f"done {item.id}: {result!r}")
            except (ValueError, KeyError) as error:
                print("failed", item, error)
                self.failed = [*self.failed, item]
            finally:
                self.queue.task_done()


@decorated(limit=%[2]d)
def total_%[1]d(rows, key=lambda row: row["value"]):
    if not rows:
        print("nothing to add")
        return 0
    return sum(key(row) for row in rows if key(row) > %[2]d) / max(len(rows), 1)

`, n, 1+random.IntN(9))
}
