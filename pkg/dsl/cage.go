package dsl

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
)

// Cage is the policy of an agent's cage. An agent with cage: disabled has none.
type Cage struct {
	// FS are the granted paths in the written order.
	FS []Mount
	// ReadOnly are paths that stay read-only because an ancestor may not write them, even if a writable grant of FS holds
	// them. They grant no access. Only [Narrow] creates them.
	ReadOnly []Place
	// Net are the reachable "host:port" pairs, see [ParseRule]; an empty list means no network.
	Net []string
	// Seccomp is "default" or "relaxed".
	Seccomp string
	// Capabilities are named capabilities.
	Capabilities []string
	// Git is "writable" or "read_only", "" if unset: see [Cage.GitReadOnly].
	Git string `json:",omitempty"`
	// State is "ephemeral" or "persistent".
	State string
	// Env are the variables set inside.
	Env map[string]string
	// Limits are the cage's resource limits.
	Limits Limits
}

// Mount grants one path.
type Mount struct {
	// Mode is "ro" or "rw".
	Mode string
	// Path is absolute, or starts with project:/ for the project's root.
	Path string
	// At is the position of the path, file:line:column, "" if it is unknown. It is not part of the policy.
	At string `json:"-"`
}

// Place names a path and grants no access.
type Place struct {
	// Path and At are as those of a [Mount].
	Path string
	At   string `json:"-"`
}

// Limits are the resource limits of a cage; zero means no limit of the policy.
type Limits struct {
	// Memory and Disk are in bytes.
	Memory, Disk int64
	// CPU is in cores.
	CPU float64
	// PIDs counts processes and threads.
	PIDs int64
	// Walltime limits one invocation, in whole milliseconds.
	Walltime time.Duration
}

// The values of git.
const (
	GitWritable = "writable"
	GitReadOnly = "read_only"
)

// GitReadOnly reports whether all of a repository's folder is read-only, in any grant. An unknown value counts as
// read_only.
func (c *Cage) GitReadOnly() bool { return c.Git != "" && c.Git != GitWritable }

var (
	cageOrNone = &shape{
		kind: oneOfShape, options: []*shape{
			oneWord("No cage: the agent works with the rights of kaged itself.", "disabled"), cageShape,
		},
		doc: "The agent's cage: disabled, or a mapping.",
	}

	cageShape = &shape{
		kind: objectShape,
		def:  "cage",
		doc:  "A cage: only the paths and hosts named here can be reached.",
		fields: []field{
			{name: "fs", shape: &shape{
				kind: listShape, most: 256,
				doc: "The files and folders that can be seen. Of several that a path lies in the deepest decides, of equals " +
					"the last.",
				items: &shape{kind: objectShape, fields: []field{
					{name: "mode", required: true, shape: oneWord("Read only, or read and write.", "ro", "rw")},
					{name: "path", required: true, shape: &shape{
						kind: stringShape, minLen: 1, maxLen: 1024, pattern: mountPattern, verify: verifyMount,
						doc: "A file or folder that is there, not a link: project:/p or ./p of the project, or an absolute path.",
					}},
				}},
			}},
			{
				name: "net",
				shape: &shape{
					kind: objectShape,
					doc:  "The network. Without it there is none but the cage's own loopback.",
					fields: []field{
						{name: "allow", shape: &shape{
							kind: listShape, most: 256, doc: "What can be reached.",
							items: &shape{
								kind: stringShape, minLen: 1, maxLen: 300, pattern: netPattern, verify: verifyRule,
								doc: "host:port, such as api.github.com:443 or [2001:db8::1]:443. There are no wildcards: each host is named.",
							},
						}},
					},
				},
			},
			{
				name:  "seccomp",
				shape: oneWord("The system calls; debuggers need relaxed. default unless set.", "default", "relaxed"),
			},
			{
				name: "git",
				shape: oneWord(
					"Whether repositories in writable folders can be written, for commits, or only read. writable unless set, or "+
						"unless the agent above has read_only.",
					GitWritable,
					GitReadOnly,
				),
			},
			{name: "capabilities", shape: &shape{
				kind: listShape, most: 64, items: text("", 64, capabilityPattern),
				doc: "Named rights: shell for the tools that run commands, exec for commands that are tools.",
			}},
			{
				name: "state",
				shape: oneWord(
					"Whether the cage's home folder is kept between invocations. ephemeral unless set.",
					"ephemeral",
					"persistent",
				),
			},
			{name: "env", shape: &shape{
				kind: mapShape, keys: envPattern, most: 256,
				doc:    "Variables set inside, the only ones besides PATH, HOME, USER, TMPDIR and the language's.",
				values: &shape{kind: stringShape, maxLen: 32768, pattern: envValuePattern},
			}},
			{name: "limits", shape: limitsShape},
		},
		forbidden: map[string]forbidden{
			"walltime": {SchemaViolation, "walltime stands under limits."},
			"memory":   {SchemaViolation, "memory stands under limits."},
			"cpu":      {SchemaViolation, "cpu stands under limits."},
			"pids":     {SchemaViolation, "pids stands under limits."},
			"disk":     {SchemaViolation, "disk stands under limits."},
		},
	}

	limitsShape = &shape{kind: objectShape, doc: "The limits of the cage.", fields: []field{
		{
			name: "memory",
			shape: sizeFrom(
				minMemory,
				"memory is %s; with less than %s nothing can start.",
				"Memory of everything in it together, at least 16MiB: bytes, or 512MiB.",
			),
		},
		{
			name: "disk",
			shape: sizeFrom(
				minDisk,
				"disk is %s and must be at least %s.",
				"How much more the folders it writes may hold than before, at least 1MiB: bytes, or 2GiB.",
			),
		},
		{name: "cpu", shape: &shape{kind: numberShape, min: 0.01, max: 1024, doc: "Cores, such as 1.5."}},
		{name: "pids", shape: wholeNumber("Processes and threads.", 1, 4_194_304)},
		{name: "walltime", shape: walltimeShape},
	}}

	walltimeShape = &shape{
		kind: stringShape, minLen: 1, maxLen: 40, pattern: durationPattern,
		doc: "The time of one invocation, at least 1s, such as 10m.",
		sense: func(n *node) string {
			if d, err := time.ParseDuration(n.text); err == nil && d < minWalltime {
				return fmt.Sprintf("walltime is %s and must be at least %s.", Span(d), Span(minWalltime))
			}
			return ""
		},
	}
)

func size(doc string) *shape {
	return &shape{kind: oneOfShape, doc: doc, options: []*shape{
		wholeNumber("", 1, 1<<53), {kind: stringShape, minLen: 1, pattern: sizePattern},
	}}
}

// sizeFrom is the shape of a size of at least least; low is the format of the message about a smaller one, with both
// sizes.
func sizeFrom(least int64, low, doc string) *shape {
	s := size(doc)
	s.sense = func(n *node) string {
		if v := bytesOf(n); v < least {
			return fmt.Sprintf(low, Bytes(v), Bytes(least))
		}
		return ""
	}
	return s
}

// ParseCage parses a file that holds only the mapping of a cage: block. Its project paths stay relative to the
// project's root. It returns nil and the errors of an invalid file; a valid cage may come with warnings.
func ParseCage(file string, data []byte) (*Cage, []Diagnostic) {
	var diags diagnostics
	n := parseYAML(file, data, &diags, nil)
	if n != nil {
		(&checker{&diags}).check(n, cageShape, "", n.pos)
	}
	if diags.failed() {
		return nil, diags.sorted()
	}
	c := buildCage(n, func(*node) string { return "" })
	checkCage(c, n, "", &diags)
	if diags.failed() {
		return nil, diags.sorted()
	}
	return c, diags.sorted()
}

// buildCage builds a Cage from a validated block. root returns the base folder of a value's project paths, relative to
// the root project. It returns nil for a missing block and for disabled.
func buildCage(n *node, root func(*node) string) *Cage {
	if n == nil || n.kind != mapNode {
		return nil
	}
	c := &Cage{Seccomp: n.str("seccomp"), State: n.str("state"), Git: n.str("git")}
	if c.Seccomp == "" {
		c.Seccomp = "default"
	}
	if c.State == "" {
		c.State = "ephemeral"
	}
	for _, item := range n.list("fs") {
		path := item.get("path")
		c.FS = append(c.FS, Mount{Mode: item.str("mode"), Path: mountPath(path.text, root(path)), At: path.pos.String()})
	}
	if net := n.get("net"); net != nil {
		c.Net = net.strings("allow")
	}
	c.Capabilities = n.strings("capabilities")
	if env := n.get("env"); env != nil && len(env.entries) > 0 {
		c.Env = make(map[string]string, len(env.entries))
		for _, e := range env.entries {
			c.Env[e.key] = e.value.text
		}
	}
	if l := n.get("limits"); l != nil {
		c.Limits = Limits{Memory: bytesOf(l.get("memory")), Disk: bytesOf(l.get("disk"))}
		c.Limits.CPU, _ = l.get("cpu").numberOrZero()
		c.Limits.PIDs = int64(first(l.get("pids").numberOrZero()))
		if d, err := time.ParseDuration(l.str("walltime")); err == nil {
			c.Limits.Walltime = d
		}
	}
	return c
}

func first[A, B any](a A, _ B) A { return a }

func (n *node) numberOrZero() (float64, bool) {
	if n == nil {
		return 0, false
	}
	return n.number()
}

// list returns the elements of the list under key.
func (n *node) list(key string) []*node {
	if v := n.get(key); v != nil && v.kind == listNode {
		return v.items
	}
	return nil
}

// strings returns the texts of the list under key.
func (n *node) strings(key string) []string {
	var out []string
	for _, item := range n.list(key) {
		out = append(out, item.text)
	}
	return out
}

var units = map[string]float64{
	"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
}

// bytesOf reads a size that the schema has accepted.
func bytesOf(n *node) int64 {
	if n == nil {
		return 0
	}
	if n.kind != stringNode {
		return int64(first(n.number()))
	}
	digits := strings.TrimRight(n.text, "KMGTiB")
	v, err := strconv.ParseFloat(digits, 64)
	if err != nil {
		return 0
	}
	return int64(v * units[n.text[len(digits):]])
}

// mountPath rewrites a path of a cage written in the project at prefix so that project:/ is the root project.
func mountPath(p, prefix string) string {
	rest, ok := InProject(p)
	if !ok {
		return p
	}
	return "project:/" + strings.Trim(strings.Trim(prefix+"/"+rest, "/"), "/")
}

func (c *Cage) clone() *Cage {
	o := *c
	o.FS, o.ReadOnly, o.Net, o.Capabilities = slices.Clone(
		c.FS,
	), slices.Clone(
		c.ReadOnly,
	), slices.Clone(
		c.Net,
	), slices.Clone(
		c.Capabilities,
	)
	o.Env = maps.Clone(c.Env)
	return &o
}

// Proto encodes c; nil stays nil.
func (c *Cage) Proto() *commonv1.CagePolicy {
	if c == nil {
		return nil
	}
	p := &commonv1.CagePolicy{
		NetAllow: slices.Clone(c.Net), Seccomp: c.Seccomp, Capabilities: slices.Clone(c.Capabilities), State: c.State,
		Env: maps.Clone(c.Env), Git: c.Git,
	}
	for _, place := range c.ReadOnly {
		p.ReadOnly = append(p.ReadOnly, place.Path)
		p.ReadOnlyAt = append(p.ReadOnlyAt, strings.ToValidUTF8(place.At, "\uFFFD"))
	}
	for _, m := range c.FS {
		p.Fs = append(p.Fs, &commonv1.CageMount{Mode: m.Mode, Path: m.Path, At: strings.ToValidUTF8(m.At, "\uFFFD")})
	}
	if c.Limits != (Limits{}) {
		p.Limits = &commonv1.CageLimits{
			MemoryBytes: c.Limits.Memory, DiskBytes: c.Limits.Disk, Cpu: c.Limits.CPU,
			Pids: c.Limits.PIDs, WalltimeMs: c.Limits.Walltime.Milliseconds(),
		}
	}
	return p
}

// CageFromProto is the reverse of [Cage.Proto]; nil stays nil.
func CageFromProto(p *commonv1.CagePolicy) *Cage {
	if p == nil {
		return nil
	}
	c := &Cage{
		Net: slices.Clone(p.GetNetAllow()), Seccomp: p.GetSeccomp(), Capabilities: slices.Clone(p.GetCapabilities()),
		State: p.GetState(), Env: maps.Clone(p.GetEnv()), Git: p.GetGit(),
	}
	for i, path := range p.GetReadOnly() {
		place := Place{Path: path}
		if at := p.GetReadOnlyAt(); i < len(at) {
			place.At = at[i]
		}
		c.ReadOnly = append(c.ReadOnly, place)
	}
	for _, m := range p.GetFs() {
		c.FS = append(c.FS, Mount{Mode: m.GetMode(), Path: m.GetPath(), At: m.GetAt()})
	}
	if l := p.GetLimits(); l != nil {
		c.Limits = Limits{
			Memory: l.GetMemoryBytes(), Disk: l.GetDiskBytes(), CPU: l.GetCpu(), PIDs: l.GetPids(),
			Walltime: time.Duration(l.GetWalltimeMs()) * time.Millisecond,
		}
	}
	return c
}

// InProject returns the part of a cage's path below the project's root, "" for the root itself, and whether the path is
// written relative to the project: as project:/p, ./p or a dot.
func InProject(path string) (string, bool) {
	if rest, ok := strings.CutPrefix(path, "project:/"); ok {
		return rest, true
	}
	if rest, ok := strings.CutPrefix(path, "./"); ok {
		return rest, true
	}
	return "", path == "."
}

// Fingerprint identifies the policy, "" for a nil one. Different policies have different fingerprints.
func (c *Cage) Fingerprint() string {
	if c == nil {
		return ""
	}
	text, err := json.Marshal(c)
	if err != nil {
		panic(err) // the value holds texts and numbers
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
