package dsl

import (
	"slices"
	"strconv"
	"strings"
)

// Sentences describe in plain words the grants and limits of a cage, or the meaning of no cage.
func (c *Cage) Sentences() []string {
	if c == nil {
		return []string{"No cage: the agent works with all rights of the account that runs kaged."}
	}
	list := append(c.fileSentences(), c.netSentence())
	if c.SystemCalls() == "relaxed" {
		list = append(list, "May trace its own processes, as debuggers do.")
	}
	if len(c.Capabilities) > 0 {
		list = append(list, "Has the capabilities "+strings.Join(c.Capabilities, ", ")+".")
	}
	if len(c.Env) > 0 {
		names := make([]string, 0, len(c.Env))
		for name := range c.Env {
			names = append(names, name)
		}
		slices.Sort(names)
		list = append(list, "Its commands see the variables "+strings.Join(names, ", ")+".")
	}
	return append(list, c.limitSentence())
}

func (c *Cage) fileSentences() []string {
	var reads, writes []string
	for _, m := range c.FS {
		shown := m.Path
		if rest, ok := InProject(m.Path); ok {
			shown = "./" + strings.Trim(rest, "/")
		}
		if m.Mode == "rw" {
			writes = append(writes, shown)
		} else {
			reads = append(reads, shown)
		}
	}
	var list []string
	if len(writes) > 0 {
		list = append(
			list,
			"Reads and writes "+strings.Join(writes, ", ")+"; hidden files and files of build tools in it stay "+
				"read-only.",
		)
	}
	if len(reads) > 0 {
		list = append(list, "Reads "+strings.Join(reads, ", ")+".")
	}
	if list == nil {
		return []string{"Sees no file of the project."}
	}
	if c.GitReadOnly() {
		list = append(list, "Cannot change a repository's .git folder.")
	}
	return list
}

func (c *Cage) netSentence() string {
	if len(c.Net) == 0 {
		return "Reaches no network."
	}
	return "Reaches " + strings.Join(c.Net, ", ") + " and nothing else on the network."
}

func (c *Cage) limitSentence() string {
	var limits []string
	add := func(set bool, text string) {
		if set {
			limits = append(limits, text)
		}
	}
	l := c.Limits
	add(l.Memory > 0, Bytes(l.Memory)+" of memory")
	add(l.Disk > 0, Bytes(l.Disk)+" of disk")
	add(l.CPU > 0, strconv.FormatFloat(l.CPU, 'g', -1, 64)+" CPUs")
	add(l.PIDs > 0, strconv.FormatInt(l.PIDs, 10)+" processes")
	add(l.Walltime > 0, Span(l.Walltime))
	if limits == nil {
		return "Has no limits of its own."
	}
	return "Uses at most " + strings.Join(limits, ", ") + "."
}
