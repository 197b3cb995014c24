package clitools

import (
	"maps"
	"slices"

	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/shellguard"
)

// shellText returns the arguments of a command in which a shell would read a value as commands, as written. Optional
// arguments are tested one by one, in pairs and all together.
func shellText(c *dsl.Command) []string {
	lists := [][]dsl.Template{c.Args}
	all := c.Args
	for i, a := range c.Optional {
		all = slices.Concat(all, a.Args)
		lists = append(lists, slices.Concat(c.Args, a.Args))
		for _, b := range c.Optional[i+1:] {
			lists = append(lists, slices.Concat(c.Args, a.Args, b.Args))
		}
	}
	var found []string
	for _, list := range append(lists, all) {
		for _, values := range fixed(c) {
			argv := []shellguard.Arg{{{Text: c.Program}}}
			for _, t := range list {
				argv = append(argv, open(t, values))
			}
			for _, i := range shellguard.Read(argv) {
				if text := list[i-1].String(); !slices.Contains(found, text) {
					found = append(found, text)
				}
			}
		}
	}
	return found
}

// fixed returns sets of values for the parameters with fixed choices, with each choice at least once.
func fixed(c *dsl.Command) []map[string]string {
	first := map[string]string{}
	for i := range c.Parameters {
		if p := &c.Parameters[i]; p.Fixed() {
			first[p.Name] = choices(p)[0]
		}
	}
	list := []map[string]string{first}
	for i := range c.Parameters {
		p := &c.Parameters[i]
		if !p.Fixed() {
			continue
		}
		for _, value := range choices(p)[1:] {
			with := maps.Clone(first)
			with[p.Name] = value
			list = append(list, with)
		}
	}
	return list
}

// choices are the values listed by the operator.
func choices(p *dsl.CommandParameter) []string {
	if len(p.Enum) == 0 {
		return []string{"true", "false"}
	}
	var list []string
	for _, value := range p.Enum {
		list = append(list, argument(value))
	}
	return list
}

func open(t dsl.Template, values map[string]string) shellguard.Arg {
	var arg shellguard.Arg
	for _, part := range t {
		value, known := values[part.Parameter]
		arg = append(arg, shellguard.Part{Text: part.Text + value, Open: part.Parameter != "" && !known})
	}
	return arg
}
