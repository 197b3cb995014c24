package dsl

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/quick"
	"time"
)

// comparedFields maps the fields of a cage to the key under which [Wider] compares them.
var comparedFields = map[string]string{
	"FS": "fs", "ReadOnly": "fs", "Net": "net.allow", "Seccomp": "seccomp", "Capabilities": "capabilities", "Git": "git",
	"State": "state", "Env": "env",
	"Limits.Memory": "limits.memory", "Limits.Disk": "limits.disk", "Limits.CPU": "limits.cpu",
	"Limits.PIDs": "limits.pids", "Limits.Walltime": "limits.walltime",
}

// Wider compares every field of a cage, also fields added later.
func TestWiderComparesEveryField(t *testing.T) {
	var fields []string
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Cage]()) {
		if f.Type != reflect.TypeFor[Limits]() {
			fields = append(fields, f.Name)
			continue
		}
		for _, l := range reflect.VisibleFields(f.Type) {
			fields = append(fields, f.Name+"."+l.Name)
		}
	}
	for _, name := range fields {
		if comparedFields[name] == "" {
			t.Errorf("Cage.%s is not compared: add it to Wider and to comparedFields", name)
		}
	}
	if len(fields) != len(comparedFields) {
		t.Errorf("%d fields are compared and there are %d", len(comparedFields), len(fields))
	}
}

func cageOf(t *testing.T, yaml string) *Cage {
	t.Helper()
	if yaml == "" {
		return nil
	}
	c, diags := ParseCage("cage.yaml", []byte(yaml))
	if c == nil {
		t.Fatal(diags)
	}
	return c
}

// A wider grant is found for each key; a narrower or equal grant is not.
func TestWider(t *testing.T) {
	const work = "fs: [{mode: rw, path: ./}, {mode: ro, path: ./docs}]\n"
	for name, tt := range map[string]struct{ from, to, want string }{
		"no cage any more": {
			work, "", ": fs rw project:/, ro project:/docs; net none; seccomp default; capabilities none → disabled",
		},
		"a cage where there was none": {"", work, ""},
		"the same":                    {work, work, ""},
		"another spelling": {
			work, "fs: [{mode: rw, path: \"project:/\"}, {mode: ro, path: \"project:/docs/\"}]", "",
		},
		"less":                      {work, "fs: [{mode: ro, path: ./}]", ""},
		"a folder of it":            {work, "fs: [{mode: rw, path: ./src}]", ""},
		"the same in absolute form": {work, "fs: [{mode: rw, path: /home/p}, {mode: ro, path: /home/p/docs}]", ""},
		"read-only no more":         {work, "fs: [{mode: rw, path: ./}]", "fs: ro project:/docs → rw project:/docs"},
		"read-only, in another form": {
			"fs: [{mode: rw, path: ./}, {mode: ro, path: /home/p/docs}]", "fs: [{mode: rw, path: ./}]",
			"fs: ro /home/p/docs → rw /home/p/docs",
		},
		"more of the host": {work, work + "net: {}\n" + "", ""},
		"a path outside":   {work, "fs: [{mode: ro, path: /etc/ssl}]", "fs:  → ro /etc/ssl"},
		"a parent folder": {
			"fs: [{mode: rw, path: ./src}]", "fs: [{mode: rw, path: ./}]", "fs:  → rw project:/",
		},
		"a protected name": {
			work, "fs: [{mode: rw, path: ./}, {mode: ro, path: ./docs}, {mode: rw, path: ./.vscode}]",
			"fs: rw project:/.vscode, protected → rw project:/.vscode",
		},
		"inside a protected name": {
			"fs: [{mode: rw, path: ./}, {mode: rw, path: ./.vscode}]", "fs: [{mode: rw, path: ./.vscode/a}]", "",
		},
		"hooks of a bare repository": {
			"fs: [{mode: rw, path: ./}]", "fs: [{mode: rw, path: ./}, {mode: rw, path: ./x/hooks}]",
			"fs: rw project:/x/hooks, protected → rw project:/x/hooks",
		},
		"a host": {
			"net: {allow: [\"a.b:1\"]}", "net: {allow: [\"A.b.:1\", \"c.d:2\"]}", "net.allow:  → c.d:2",
		},
		"system calls":             {"seccomp: default", "seccomp: relaxed", "seccomp: default → relaxed"},
		"the default system calls": {"seccomp: relaxed", "seccomp: default", ""},
		"a capability":             {"capabilities: [exec]", "capabilities: [shell, exec]", "capabilities:  → shell"},
		"git that can be written":  {"git: read_only", "fs: []", "git: read_only → writable"},
		"git that cannot":          {"git: writable", "git: read_only", ""},
		"a protected name in capitals": {
			"fs: [{mode: rw, path: ./}]", "fs: [{mode: rw, path: ./}, {mode: rw, path: ./MISE}]",
			"fs: rw project:/MISE, protected → rw project:/MISE",
		},
		"a home that stays": {"fs: []", "state: persistent", "state: ephemeral → persistent"},
		"variables":         {"env: {A: x, B: y}", "env: {A: z, C: w}", "env: A=x → A=z, env:  → C=w"},
		"limits": {
			"limits: {memory: 64MiB, pids: 9, cpu: 1, disk: 1GiB, walltime: 1m}",
			"limits: {memory: 128MiB, pids: 8, cpu: 1.5, walltime: 2m}",
			"limits.memory: 64MiB → 128MiB, limits.disk: 1GiB → none, limits.cpu: 1 → 1.5, limits.walltime: 1m → 2m",
		},
		"limits where there were none": {"fs: []", "limits: {memory: 64MiB}", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, d := range Wider("/home/p", cageOf(t, tt.from), cageOf(t, tt.to)) {
				got = append(got, d.Key+": "+d.From+" → "+d.To)
			}
			if s := strings.Join(got, ", "); s != tt.want {
				t.Errorf("got %q, want %q", s, tt.want)
			}
		})
	}
}

// A path that an ancestor keeps read-only stays read-only, whether a child names it or not.
func TestWiderKnowsReadOnlyPlaces(t *testing.T) {
	from := &Cage{FS: []Mount{{Mode: "rw", Path: "project:/"}}, ReadOnly: []Place{{Path: "/home/p/x"}}}
	to := &Cage{FS: []Mount{{Mode: "rw", Path: "project:/"}}}
	if got := Wider("/home/p", from, to); len(got) != 1 || got[0].Key != "fs" {
		t.Errorf("without the place: %v", got)
	}
	if got := Wider("/home/p", to, from); len(got) != 0 {
		t.Errorf("with it: %v", got)
	}
}

// randomCage is a cage with few different names, so that two of them often overlap.
func randomCage(r *rand.Rand) *Cage {
	if r.IntN(12) == 0 {
		return nil
	}
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	paths := []string{
		"project:/",
		"project:/a",
		"project:/a/b",
		"./a/c",
		"/home/p/a",
		"/home",
		"/etc",
		"project:/.vscode",
		"project:/a/.git/hooks",
	}
	c := &Cage{
		Seccomp: pick("", "default", "relaxed"),
		State:   pick("", "ephemeral", "persistent"),
		Git:     pick("", "writable", "read_only"),
		Env:     map[string]string{},
	}
	for range r.IntN(4) {
		c.FS = append(c.FS, Mount{Mode: pick("ro", "rw"), Path: pick(paths...)})
	}
	if r.IntN(3) == 0 {
		c.ReadOnly = append(c.ReadOnly, Place{Path: pick(paths...)})
	}
	for range r.IntN(3) {
		c.Net = append(c.Net, pick("a:1", "A:1", "a:2", "b.c:443"))
		c.Capabilities = append(c.Capabilities, pick("shell", "exec"))
		c.Env[pick("A", "B")] = pick("x", "y")
	}
	limit := func() int64 { return []int64{0, 1 << 20, 1 << 30}[r.IntN(3)] }
	c.Limits = Limits{
		Memory:   limit(),
		Disk:     limit(),
		CPU:      float64(limit()),
		PIDs:     limit(),
		Walltime: time.Duration(limit()),
	}
	return c
}

// can lists all actions of an agent in a cage, in a small world, by trying each one.
func can(c *Cage) map[string]bool {
	list := map[string]bool{}
	for _, at := range []string{
		"/", "/etc", "/etc/x", "/home", "/home/q", "/home/p", "/home/p/x", "/home/p/a", "/home/p/a/x", "/home/p/a/b",
		"/home/p/a/b/x", "/home/p/a/c/x",
		"/home/p/.vscode", "/home/p/.vscode/x", "/home/p/a/.git/hooks/x",
	} {
		list["read "+at] = c == nil || c.Access("/home/p", at) >= ReadAccess
		protected := strings.Contains(at, "/.")
		named := c != nil && slices.ContainsFunc(c.FS, func(m Mount) bool {
			return m.Mode == "rw" && strings.Contains(m.Path, "/.") && within(at, absolutePath("/home/p", m.Path))
		})
		list["write "+at] = c == nil || c.Access("/home/p", at) == WriteAccess && (!protected || named)
	}
	for _, host := range []string{"a:1", "a:2", "b.c:443"} {
		list["reach "+host] = c == nil ||
			slices.ContainsFunc(c.Net, func(text string) bool { return strings.EqualFold(text, host) })
	}
	for _, name := range []string{"shell", "exec"} {
		list["use "+name] = c == nil || slices.Contains(c.Capabilities, name)
	}
	list["call what only debuggers need"] = c == nil || c.Seccomp == "relaxed"
	list["write .git"] = c == nil || !c.GitReadOnly()
	list["keep a home"] = c == nil || c.State == "persistent"
	for _, amount := range []int64{1, 1 << 21, 1 << 40} {
		fits := func(limit int64) bool { return limit == 0 || amount <= limit }
		list[fmt.Sprint("memory ", amount)] = c == nil || fits(c.Limits.Memory)
		list[fmt.Sprint("disk ", amount)] = c == nil || fits(c.Limits.Disk)
		list[fmt.Sprint("cores ", amount)] = c == nil || fits(int64(c.Limits.CPU))
		list[fmt.Sprint("pids ", amount)] = c == nil || fits(c.Limits.PIDs)
		list[fmt.Sprint("walltime ", amount)] = c == nil || fits(int64(c.Limits.Walltime))
	}
	return list
}

// If no key is wider, the new cage allows no action that the old cage refused, for any pair of cages.
func TestNothingWiderMeansNothingMore(t *testing.T) {
	narrower := 0
	holds := func(seed uint64) bool {
		r := rand.New(rand.NewPCG(seed, 1))
		from, to := randomCage(r), randomCage(r)
		if r.IntN(3) == 0 && from != nil { // a similar cage, so that many pairs are not wider
			to = from.clone()
			switch r.IntN(4) {
			case 0:
				to.FS = to.FS[:len(to.FS)/2]
			case 1:
				to.ReadOnly = nil
			case 2:
				to.Net, to.Capabilities = nil, nil
			case 3:
				slices.Reverse(to.FS)
			}
		}
		if len(Wider("/home/p", from, to)) > 0 {
			return true
		}
		narrower++
		before := can(from)
		for what, possible := range can(to) {
			if possible && !before[what] {
				t.Errorf("seed %d: %s is possible in\n%+v\nand was not in\n%+v", seed, what, to, from)
				return false
			}
		}
		return true
	}
	if err := quick.Check(holds, &quick.Config{MaxCount: 20_000}); err != nil {
		t.Error(err)
	}
	if narrower < 100 {
		t.Errorf("only %d pairs widened nothing; the test says little", narrower)
	}
}

// A write grant that an ancestor's read-only folder of the same spelling permits is wider than a read grant.
func TestWiderBelowAReadOnlyFolder(t *testing.T) {
	parent := cageOf(t, "fs: [{mode: ro, path: ./a}, {mode: rw, path: ./a/b}, {mode: rw, path: /x}]")
	child := func(mode string) *Cage {
		c, excess := Narrow(parent, cageOf(t, "fs: [{mode: rw, path: /x}, {mode: "+mode+", path: ./a/b}]"))
		if len(excess) > 0 || len(c.ReadOnly) != 1 {
			t.Fatal(excess, c.ReadOnly)
		}
		return c
	}
	if got := Wider("/p", child("ro"), child("rw")); len(got) != 1 || got[0].Key != "fs" {
		t.Errorf("%v", got)
	}
	if got := Wider("/p", child("rw"), child("ro")); len(got) != 0 {
		t.Errorf("narrowing: %v", got)
	}
}
