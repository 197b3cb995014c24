package tools

import (
	"bytes"
	"io"
	"maps"
	"slices"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/redact"
	"kaged.dev/pkg/workspace/change"
	"kaged.dev/pkg/workspace/paths"
	"kaged.dev/services/tool-runner/internal/core/tool"
)

// apply makes changes with content written by a model, unless [Deps.unredacted] refuses them.
func (d Deps) apply(call *tool.Call, changes ...change.Change) error {
	if err := d.unredacted(changes...); err != nil {
		return err
	}
	return d.applyKept(call, changes...)
}

// applyKept stores the present content of the files and then makes the changes of a call. A file that a caged agent
// changes loses its set-id bits: a shell in the cage takes them too.
func (d Deps) applyKept(call *tool.Call, changes ...change.Change) error {
	for i, c := range changes {
		changes[i].Plain = call.From.Cage != nil
		d.Images.Keep(call.From, c.At)
		if c.Move != nil {
			d.Images.Keep(call.From, *c.Move)
		}
	}
	return d.Files.Apply(changes...)
}

// unredacted fails with redacted_text if changes would write a marker into a file. A marker replaces a secret that the
// model was not shown. Markers already in the files may stay, and move.
func (d Deps) unredacted(changes ...change.Change) error {
	written := map[string]int{}
	for _, c := range changes {
		count(written, c.Data, 1)
	}
	if len(written) > 0 {
		for _, c := range changes {
			d.countIn(written, &c.At)
			d.countIn(written, c.Like)
		}
		maps.DeleteFunc(written, func(_ string, n int) bool { return n <= 0 })
	}
	if len(written) > 0 {
		return redacted(slices.Sorted(maps.Keys(written)))
	}
	return nil
}

// countIn subtracts the markers of an existing file from the counts.
func (d Deps) countIn(counts map[string]int, path *paths.Path) {
	if path == nil {
		return
	}
	f, _, err := path.OpenFile()
	if err != nil {
		return // The file is missing.
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, d.Limits.ReadFile))
	if err == nil {
		count(counts, data, -1)
	}
}

func count(counts map[string]int, data []byte, each int) {
	if !bytes.Contains(data, []byte(redact.MarkerStart)) {
		return
	}
	for _, marker := range redact.Markers(string(data)) {
		counts[marker] += each
	}
}

// unfound replaces the error for a text that a model names and that is not in a file, if the text holds a marker.
func unfound(err error, text string) error {
	switch fault.CodeOf(err) {
	case fault.OldStringNotFound, fault.HunkNotFound:
		if markers := redact.Markers(text); len(markers) > 0 {
			return redacted(slices.Compact(slices.Sorted(slices.Values(markers))))
		}
	}
	return err
}

func redacted(markers []string) error {
	return fault.New(
		fault.RedactedText,
		"%s stands for a secret that you were not shown and is not in the file, so nothing was changed. "+
			"Change the text around it, in smaller pieces.",
		markers[0],
	).With("markers", markers)
}
