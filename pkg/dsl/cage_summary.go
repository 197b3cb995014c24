package dsl

import "strings"

// Summary returns the grants of a cage in one line for the record, as written; "none" without a cage.
func (c *Cage) Summary() string {
	if c == nil {
		return "none"
	}
	var b strings.Builder
	b.WriteString("fs")
	if len(c.FS) == 0 {
		b.WriteString(" none")
	}
	for i, m := range c.FS {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(" " + m.Mode + " " + m.Path)
	}
	list := func(name string, values ...string) {
		b.WriteString("; " + name + " ")
		if len(values) == 0 {
			values = []string{"none"}
		}
		b.WriteString(strings.Join(values, ", "))
	}
	list("net", c.Net...)
	list("seccomp", c.SystemCalls())
	list("capabilities", c.Capabilities...)
	if c.GitReadOnly() {
		list("git", GitReadOnly)
	}
	return b.String()
}

// SystemCalls returns the profile of system calls, "default" if unset.
func (c *Cage) SystemCalls() string {
	if c.Seccomp == "" {
		return "default"
	}
	return c.Seccomp
}
