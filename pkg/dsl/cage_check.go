package dsl

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The lowest limits of a cage: with lower ones no program starts.
const (
	minMemory   = 16 << 20
	minDisk     = 1 << 20
	minWalltime = time.Second
)

// Capabilities are the names that tools require, and their purposes.
var Capabilities = map[string]string{
	"shell": "run commands (shell.bash, shell.exec, shell.process)",
	"exec":  "run the commands that are tools (.kaged/tools.yaml)",
}

// Ungrantable are the folders that no policy can grant. A cage has its own; the host's would reveal or reach other
// processes.
var Ungrantable = []string{"/proc", "/sys", "/dev", "/run"}

// verifyMount returns the error in a path of fs.
func verifyMount(path string) error {
	if !mountPattern.re.MatchString(path) {
		return fmt.Errorf("%s must be %s", quoted(path), mountPattern.says)
	}
	if path == "/" {
		return fmt.Errorf("/ is the whole file system, which cannot be granted; name the folders that are needed")
	}
	for _, dir := range Ungrantable {
		if within(path, dir) {
			return fmt.Errorf("%s lies in %s, which cannot be granted; a cage has its own", quoted(path), dir)
		}
	}
	return nil
}

func verifyRule(text string) error {
	_, err := ParseRule(text)
	return err
}

// checkCage warns of errors that need the whole cage. n is the cage's block, path its tree path.
func checkCage(c *Cage, n *node, path string, diags *diagnostics) {
	at := func(field string) (Position, string) {
		if path == "" {
			return n.at(field).pos, field
		}
		return n.at(field).pos, path + "." + field
	}
	for i, m := range c.FS {
		if j := slices.IndexFunc(c.FS[:i], func(o Mount) bool { return canonical(o.Path) == canonical(m.Path) }); j >= 0 {
			pos, tree := at("fs[" + strconv.Itoa(i) + "]")
			diags.warnf(
				CageDoubtful,
				pos,
				tree,
				"%s is granted twice, first %s and then %s; the last counts.",
				m.Path,
				c.FS[j].Mode,
				m.Mode,
			)
		}
	}
	for i, m := range c.FS {
		if part, ok := inGit(m.Path); ok && m.Mode == "rw" && c.GitReadOnly() {
			pos, tree := at("fs[" + strconv.Itoa(i) + "]")
			diags.errorf(
				SchemaViolation,
				pos,
				tree,
				"git: read_only leaves %s read-only, and %s is granted rw; leave the grant out, or set git: writable.",
				part,
				m.Path,
			)
		}
	}
	for i, text := range c.Net {
		if slices.ContainsFunc(c.Net[:i], func(o string) bool { return ruleKey(o) == ruleKey(text) }) {
			pos, tree := at("net.allow[" + strconv.Itoa(i) + "]")
			diags.warnf(CageDoubtful, pos, tree, "%s is allowed twice.", text)
		}
	}
	for i, name := range c.Capabilities {
		if _, known := Capabilities[name]; !known {
			pos, tree := at("capabilities[" + strconv.Itoa(i) + "]")
			diags.warnf(
				CageDoubtful,
				pos,
				tree,
				"No tool asks for the capability %q; there are %s.",
				name,
				enumerate(capabilityNames(), "and"),
			)
		}
	}
}

// inGit returns the part of a path up to its .git folder, and false if it has none.
func inGit(path string) (string, bool) {
	parts := strings.Split(canonical(path), "/")
	i := slices.IndexFunc(parts, func(part string) bool { return FoldName(part) == ".git" })
	return strings.Join(parts[:i+1], "/"), i >= 0
}

func isInGit(path string) bool { return first(inGit(path)) != "" }

func capabilityNames() []string {
	var names []string
	for name := range Capabilities {
		names = append(names, name)
	}
	slices.SortFunc(names, strings.Compare)
	return names
}
