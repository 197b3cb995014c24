package core

import (
	"context"
	"path/filepath"
	"strings"

	"kaged.dev/pkg/clip"
	"kaged.dev/pkg/contract"
	"kaged.dev/services/tool-runner/internal/core/debugging"
	"kaged.dev/services/tool-runner/internal/core/project"
)

// The shown source around a line: the number of lines on each side, for a stop and for a view, and the maximum length
// of each.
const (
	stopAround  = 3
	viewAround  = 10
	sourceRunes = 400
)

// tellDebug reports the events of a run's debug sessions until ctx ends. It fails if tell fails.
func (r *Runner) tellDebug(ctx context.Context, from contract.Caller, tell func(contract.DebugEvent) error) error {
	return r.debuggers.Tell(ctx, from.SessionID, from.RunID, func(e contract.DebugEvent, root string) error {
		if e.Stop != nil && len(e.Stop.Frames) > 0 {
			e.Stop.Source = r.source(ctx, root, e.Stop.Frames[0], stopAround)
		}
		return tell(e)
	})
}

// ViewDebug returns a debug session for operators.
func (r *Runner) ViewDebug(ctx context.Context, l debugging.Look) (debugging.Seen, error) {
	seen, root, err := r.debuggers.View(ctx, l)
	if err == nil && seen.View != nil && l.Frame < len(seen.View.Frames) {
		seen.View.Source = r.source(ctx, root, seen.View.Frames[l.Frame], viewAround)
	}
	return seen, err
}

// ControlDebug moves a debugged program for an operator.
func (r *Runner) ControlDebug(ctx context.Context, m debugging.Move) (debugging.Moved, error) {
	return r.debuggers.Control(ctx, m)
}

// source returns the lines around a frame's line, an empty list for an unreadable file or one outside the project.
func (r *Runner) source(ctx context.Context, root string, at contract.DebugFrame, around int) []contract.DebugLine {
	if root == "" || at.Line < 1 || !filepath.IsLocal(at.Path) {
		return nil
	}
	_, files, err := r.ReadProject(ctx, project.Request{Root: root, Paths: []string{filepath.ToSlash(at.Path)}})
	if err != nil || files[0].State != project.Found {
		return nil
	}
	var lines []contract.DebugLine
	n := 0
	for text := range strings.Lines(string(files[0].Content)) {
		if n++; n < at.Line-around {
			continue
		}
		if n > at.Line+around {
			break
		}
		short, _ := clip.Runes(strings.TrimRight(text, "\r\n"), sourceRunes)
		lines = append(lines, contract.DebugLine{Line: n, Text: short})
	}
	return lines
}
