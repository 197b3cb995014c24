package scaffold

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"kaged.dev/pkg/cage"
	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ownpath"
)

// Cage is the cage of a new project's agent.
type Cage struct {
	// Off is the reason, in one sentence, why it has no cage, empty for an agent with a cage.
	Off string
	// Needs are the needs of its commands.
	Needs
}

// view returns the data for the templates of the project file and its overlay.
func (c Cage) view(slug string) map[string]any {
	return map[string]any{
		"Project": slug, "Slug": scalar(slug), "Alias": DefaultAlias,
		"Description": strconv.Quote("The agents of " + slug + "."),
		"Off": wrapped(
			c.Off,
		), "Languages": words(c.Languages), "Net": quoted(c.Net), "Read": quoted(c.Read), "Env": c.variables(),
	}
}

// variables returns the lines of the overlay's env, in order.
func (c Cage) variables() []string {
	env := maps.Clone(c.Env)
	if len(c.Path) > 0 {
		if env == nil {
			env = map[string]string{}
		}
		env["PATH"] = strings.Join(append(slices.Clone(c.Path), c.SystemPath), ":")
	}
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(env)) {
		lines = append(lines, name+": "+strconv.Quote(env[name]))
	}
	return lines
}

// local reports whether a part of the cage applies to this machine only.
func (c Cage) local() bool { return c.Off == "" && len(c.Read)+len(c.Path)+len(c.Env) > 0 }

// fit returns a cage that works for the project in dir: without the additions for this machine's toolchains if these
// cannot be granted, and off if the project's folder itself cannot be granted.
func (c Cage) fit(dir, slug string, forbidden []ownpath.Path) (Cage, error) {
	if c.Off != "" {
		return c, nil
	}
	var err error
	for _, tried := range []Cage{c, {Needs: Needs{Languages: c.Languages, Net: c.Net}}, {}} {
		if err = tried.try(dir, slug, forbidden); err == nil {
			return tried, nil
		}
	}
	if !errors.Is(err, fault.CagePolicyInvalid) {
		return Cage{}, err
	}
	_, reason, _ := strings.Cut(fault.From(err).Msg, ": ") // the text before the colon is the position in the file
	return Cage{Off: cmp.Or(reason, fault.From(err).Msg)}, nil
}

// try compiles the policy of the files to be written, as a run does.
func (c Cage) try(dir, slug string, forbidden []ownpath.Path) error {
	files, err := c.render(slug)
	if err != nil {
		return err
	}
	sources := []dsl.File{{Path: dsl.OverlayFile}, {Path: dsl.InstructionsPath}}
	for _, f := range files {
		if f.path == dsl.OverlayFile {
			sources = sources[1:]
		}
		sources = append(sources, dsl.File{Path: f.path, Present: true, Content: f.content})
	}
	parsed := dsl.Parse(sources)
	if parsed.Failed() || parsed.Project == nil {
		return fault.New(fault.CagePolicyInvalid, "The cage of the project file does not compile: %v", parsed.Diagnostics)
	}
	_, err = cage.Compile(parsed.Project.Primary.Cage, dir, cage.Forbidden(forbidden...))
	return err
}

// lineWidth is the maximum length of a line of a comment in the written files.
const lineWidth = 110

// wrapped returns text as lines of a comment.
func wrapped(text string) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len(line)+1+len(word) > lineWidth {
			lines = append(lines, line)
			line = ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	return append(lines, line)
}

// words returns names joined for a sentence.
func words(names []string) string {
	if len(names) < 2 {
		return cmp.Or(strings.Join(names, ""), "this project")
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}

func quoted(list []string) []string {
	out := make([]string, len(list))
	for i, text := range list {
		out[i] = strconv.Quote(text)
	}
	return out
}
