package compact

import (
	"fmt"
	"slices"
	"strings"

	"kaged.dev/pkg/clip"
	"kaged.dev/pkg/contract"
)

// MaxView is the most bytes of the view of a ledger.
const MaxView = 8 << 10

// ledgerHead is the first line of the view of a ledger.
const ledgerHead = "kaged's ledger of this session. Files and commands are as kaged recorded them; the rest you " +
	"wrote down with kaged.note."

// section is a part of the view. It shows its newest lines that fit into its share, and further ones if other
// sections leave room.
type section struct {
	title string
	share int // in bytes
	lines []string
}

// View returns the part of a ledger for an agent: open todos, decisions, failures, changed files, then the newest
// entries, at most [MaxView] bytes. Each entry is one line. Lines that do not fit are left out and counted. The view
// of an empty ledger is empty.
func View(entries []contract.LedgerEntry) string {
	if len(entries) == 0 {
		return ""
	}
	sections := sectionsOf(entries)
	var b strings.Builder
	b.WriteString(ledgerHead)
	left := MaxView - len(ledgerHead)
	shown := make([]int, len(sections)) // number of shown lines of each section, counted from its end
	fit := func(i, limit int) int {
		size := len(sections[i].title) + 40
		n := 0
		for _, line := range slices.Backward(sections[i].lines) {
			if size+len(line)+1 > limit {
				break
			}
			size += len(line) + 1
			n++
		}
		if n == 0 {
			return 0
		}
		shown[i] = n
		return size
	}
	used := make([]int, len(sections))
	for i, s := range sections {
		used[i] = fit(i, min(s.share, left))
		left -= used[i]
	}
	for i := range sections { // the room that other sections left
		left += used[i]
		used[i] = fit(i, left)
		left -= used[i]
	}
	for i, s := range sections {
		if shown[i] == 0 {
			continue
		}
		b.WriteString("\n" + s.title)
		if hidden := len(s.lines) - shown[i]; hidden > 0 {
			fmt.Fprintf(&b, " (%d older ones left out)", hidden)
		}
		b.WriteByte(':')
		for _, line := range s.lines[len(s.lines)-shown[i]:] {
			b.WriteString("\n" + line)
		}
	}
	return b.String()
}

// sectionsOf sorts the entries of a ledger into sections, oldest first.
func sectionsOf(entries []contract.LedgerEntry) []section {
	done, changed, last := map[int64]bool{}, map[string]contract.LedgerEntry{}, map[string]contract.LedgerEntry{}
	for _, e := range entries {
		switch e.Kind {
		case contract.LedgerDone:
			done[e.Ref] = true
		case contract.LedgerFileChanged:
			changed[e.Path] = e
		case contract.LedgerCommand:
			last[e.Command] = e // a command that succeeds later is no failure
		}
	}
	todos := section{title: "Open todos", share: 2 << 10}
	decisions := section{title: "Decisions", share: 2 << 10}
	failures := section{title: "Failed or denied", share: 1536}
	files := section{title: "Changed files", share: 1536}
	newest := section{title: "Newest", share: 1 << 10}
	for _, e := range entries {
		line := lineOf(e)
		switch {
		case e.Kind == contract.LedgerTodo:
			if !e.Done && !done[e.Seq] {
				todos.lines = append(todos.lines, line)
			}
		case e.Kind == contract.LedgerDecision:
			decisions.lines = append(decisions.lines, line)
		case e.Kind == contract.LedgerFailed, e.Kind == contract.LedgerDenied:
			failures.lines = append(failures.lines, line)
		case e.Kind == contract.LedgerCommand && failed(e):
			if last[e.Command].Seq == e.Seq {
				failures.lines = append(failures.lines, line)
			}
		case e.Kind == contract.LedgerFileChanged:
			if changed[e.Path].Seq == e.Seq {
				files.lines = append(files.lines, line)
			}
		case e.Kind == contract.LedgerDone:
		default:
			newest.lines = append(newest.lines, line)
		}
	}
	return []section{todos, decisions, failures, files, newest}
}

// failed reports whether a command failed.
func failed(e contract.LedgerEntry) bool {
	return e.ExitCode != nil && *e.ExitCode != 0 || e.Text != ""
}

// maxCommand is the most bytes of a command in the view.
const maxCommand = 400

// lineOf returns an entry as a line.
func lineOf(e contract.LedgerEntry) string {
	at := fmt.Sprintf("- [%d] ", e.Seq)
	switch e.Kind {
	case contract.LedgerFileRead, contract.LedgerFileChanged:
		line := at + "read " + oneLine(e.Path)
		if e.Kind == contract.LedgerFileChanged {
			line = at + oneLine(e.Path)
		}
		if e.Text != "" {
			line += " " + oneLine(e.Text)
		}
		if len(e.SHA256) >= 12 {
			line += " (sha256 " + e.SHA256[:12] + ")"
		}
		return line
	case contract.LedgerCommand:
		line := at + "`" + strings.ToValidUTF8(clip.Bytes(oneLine(e.Command), maxCommand), "") + "`"
		if e.ExitCode != nil {
			line += fmt.Sprintf(" exit %d", *e.ExitCode)
		}
		if e.Text != "" {
			line += " " + e.Text
		}
		return line
	case contract.LedgerDenied:
		return at + "denied: " + oneLine(e.Text)
	}
	return at + oneLine(e.Text)
}

// oneLine returns a text without line breaks, so that an agent cannot forge a line of the view.
func oneLine(text string) string { return strings.NewReplacer("\r", " ", "\n", " ⏎ ").Replace(text) }
