package patch

import (
	"regexp"
	"strconv"
	"strings"

	"kaged.dev/pkg/fault"
)

const (
	beginMark  = "*** Begin Patch"
	endMark    = "*** End Patch"
	addMark    = "*** Add File:"
	updateMark = "*** Update File:"
	deleteMark = "*** Delete File:"
	moveMark   = "*** Move to:"
	eofMark    = "*** End of File"
	anyMark    = "***"
	noEndMark  = `\ `
)

// Parse parses an envelope. An error is patch_invalid, whose message and details name the line.
func Parse(text string) (*Patch, error) {
	p := &parser{lines: strings.Split(strings.TrimSuffix(text, "\n"), "\n")}
	if err := p.begin(); err != nil {
		return nil, err
	}
	var patch Patch
	for {
		line, ok := p.next()
		if !ok {
			return nil, p.fail(len(p.lines), "the patch ends without %q; it may have been cut off", endMark)
		}
		var section Section
		var err error
		switch trimmed := strings.TrimSpace(line); {
		case trimmed == "":
			continue
		case trimmed == endMark:
			if len(patch.Sections) == 0 {
				return nil, p.fail(p.at, "the patch changes no file")
			}
			return &patch, p.end()
		case strings.HasPrefix(trimmed, addMark):
			section, err = p.add(trimmed[len(addMark):])
		case strings.HasPrefix(trimmed, updateMark):
			section, err = p.update(trimmed[len(updateMark):])
		case strings.HasPrefix(trimmed, deleteMark):
			section, err = p.section(Delete, trimmed[len(deleteMark):])
		case strings.HasPrefix(trimmed, anyMark):
			err = p.fail(p.at, "%.80q is no section; there are %q, %q and %q", trimmed, addMark, updateMark, deleteMark)
		case len(patch.Sections) > 0 && patch.Sections[len(patch.Sections)-1].Op == Delete:
			err = p.fail(p.at, "%.80q follows a deleted file, which takes no lines", trimmed)
		default:
			err = p.fail(
				p.at,
				"%.80q stands before the first section; a section begins with %q, %q or %q",
				trimmed,
				addMark,
				updateMark,
				deleteMark,
			)
		}
		if err != nil {
			return nil, err
		}
		patch.Sections = append(patch.Sections, section)
	}
}

// parser reads a patch line by line.
type parser struct {
	lines []string
	at    int  // number of the last line read, from 1
	crlf  bool // the patch has \r\n line ends, which do not come from the files
}

func (p *parser) next() (string, bool) {
	if p.at == len(p.lines) {
		return "", false
	}
	p.at++
	line := p.lines[p.at-1]
	if p.crlf {
		line = strings.TrimSuffix(line, "\r")
	}
	return line, true
}

// back makes next return the last line again.
func (p *parser) back() { p.at-- }

func (p *parser) fail(line int, format string, args ...any) error {
	return fault.New(fault.PatchInvalid, "Line %d of the patch: "+format+".", append([]any{line}, args...)...).
		With("line", line)
}

// begin reads up to the first mark. Models wrap patches in code fences and shell commands. Any other text before the
// mark may be a lost part of the patch, so it is refused.
func (p *parser) begin() error {
	for {
		line, ok := p.next()
		if !ok {
			return p.fail(1, "a patch begins with %q", beginMark)
		}
		switch trimmed := strings.TrimSpace(line); {
		case trimmed == beginMark:
			p.crlf = strings.HasSuffix(line, "\r")
			return nil
		case trimmed == "", strings.HasPrefix(trimmed, "```"), strings.Contains(trimmed, "<<"):
		case strings.HasPrefix(trimmed, "--- "), strings.HasPrefix(trimmed, "diff "):
			return p.fail(
				p.at,
				"this is a unified diff; put its hunks between %q and %q, each file under %q",
				beginMark,
				endMark,
				updateMark,
			)
		default:
			return p.fail(p.at, "a patch begins with %q and not with %.80q", beginMark, trimmed)
		}
	}
}

var wrapEnd = regexp.MustCompile("^(```|[A-Za-z_]+)$")

// end reads the text after the last mark, which may only close the wrapping that begin skipped.
func (p *parser) end() error {
	for {
		line, ok := p.next()
		if !ok {
			return nil
		}
		if trimmed := strings.TrimSpace(line); trimmed != "" && !wrapEnd.MatchString(trimmed) {
			return p.fail(p.at, "%.80q follows %q", trimmed, endMark)
		}
	}
}

func (p *parser) section(op Op, name string) (Section, error) {
	name = strings.TrimSpace(name)
	if name == "" {
		return Section{}, p.fail(p.at, "the file has no name")
	}
	return Section{Op: op, Path: name, Line: p.at}, nil
}

// add reads the lines of a new file.
func (p *parser) add(name string) (Section, error) {
	s, err := p.section(Add, name)
	if err != nil {
		return s, err
	}
	var content strings.Builder
	noEnd := false
	for {
		line, ok := p.next()
		switch {
		case !ok:
			s.Content = content.String()
			return s, nil
		case isMark(line) || strings.TrimSpace(line) == "" && p.onlyBlanks():
			p.back()
			s.Content = content.String()
			if noEnd {
				s.Content = strings.TrimSuffix(s.Content, "\n")
			}
			return s, nil
		case strings.HasPrefix(line, noEndMark) && content.Len() > 0:
			noEnd = true
		case strings.HasPrefix(line, "+") && !noEnd:
			content.WriteString(line[1:])
			content.WriteByte('\n')
		default:
			return s, p.fail(p.at, "every line of a new file begins with +, also an empty one; this is %.80q", line)
		}
	}
}

// isMark reports whether a line without its own sign is a mark, possibly indented.
func isMark(line string) bool { return strings.HasPrefix(strings.TrimSpace(line), anyMark) }

// onlyBlanks reports whether only blank lines follow before the next mark.
func (p *parser) onlyBlanks() bool {
	for _, line := range p.lines[p.at:] {
		if isMark(line) {
			return true
		}
		if strings.TrimSpace(line) != "" {
			return false
		}
	}
	return true
}

// update reads the hunks of a changed file.
func (p *parser) update(name string) (Section, error) {
	s, err := p.section(Update, name)
	if err != nil {
		return s, err
	}
	if line, ok := p.next(); ok && strings.HasPrefix(strings.TrimSpace(line), moveMark) {
		if s.MoveTo = strings.TrimSpace(strings.TrimSpace(line)[len(moveMark):]); s.MoveTo == "" {
			return s, p.fail(p.at, "the file has no new name")
		}
	} else if ok {
		p.back()
	}
	for {
		h, ok, err := p.hunk()
		if err != nil {
			return s, err
		}
		if !ok {
			break
		}
		s.Hunks = append(s.Hunks, h)
	}
	if len(s.Hunks) == 0 && s.MoveTo == "" {
		return s, p.fail(s.Line, "the update of %.80q has no hunks; a hunk is lines that begin with a space, - or +", s.Path)
	}
	return s, nil
}

// hunk reads one hunk; ok is false if the section is over.
func (p *parser) hunk() (h Hunk, ok bool, err error) {
	h.At = -1
	for {
		line, more := p.next()
		switch {
		case !more:
			return p.finish(h)
		case strings.TrimSpace(line) == eofMark:
			if len(h.Lines) == 0 {
				return h, false, p.fail(p.at, "%q follows no lines of a hunk", eofMark)
			}
			h.EOF, h.blank = true, 0
			return h, true, nil
		case strings.HasPrefix(line, anyMark):
			p.back()
			return p.finish(h)
		case strings.HasPrefix(line, "@@"):
			if len(h.Lines) > 0 {
				p.back()
				return p.finish(h)
			}
			if h.Line == 0 {
				h.Line = p.at
			}
			h.header(line[2:])
		case line == "" && h.Line == 0:
			// Space before the first hunk.
		default:
			if h.Line == 0 {
				h.Line = p.at
			}
			if err := p.hunkLine(&h, line); err != nil {
				return h, false, err
			}
		}
	}
}

// finish completes a hunk.
func (p *parser) finish(h Hunk) (Hunk, bool, error) {
	if h.Line > 0 && len(h.Lines) == h.blank {
		return h, false, p.fail(h.Line, "the hunk has no lines")
	}
	return h, h.Line > 0, nil
}

var numbers = regexp.MustCompile(`^ -([0-9]{1,9})(?:,([0-9]{1,9}))? \+[0-9]{1,9}(?:,[0-9]{1,9})? @@`)

// header parses the text after @@: a line of the file, or the line numbers of a unified diff.
func (h *Hunk) header(text string) {
	if m := numbers.FindStringSubmatch(text); m != nil {
		h.At, _ = strconv.Atoi(m[1])
		if m[2] == "0" {
			h.At++ // no line is removed: the number is that of the preceding line
		}
		return
	}
	text = strings.TrimSuffix(strings.TrimRight(text, " \t\r"), "@@")
	if text = strings.TrimRight(strings.TrimPrefix(text, " "), " \t"); text != "" {
		h.Headers = append(h.Headers, text)
	}
}

func (p *parser) hunkLine(h *Hunk, line string) error {
	if line == "" || line == "\r" {
		h.Lines = append(h.Lines, Line{Op: ' '})
		h.blank++
		return nil
	}
	switch line[0] {
	case ' ', '-', '+':
		h.Lines = append(h.Lines, Line{Op: line[0], Text: strings.TrimSuffix(line[1:], "\r")})
		h.blank = 0
		return nil
	case '\\':
		if n := len(h.Lines); n > h.blank && strings.HasPrefix(line, noEndMark) {
			h.Lines[n-1].NoEnd, h.marked = true, true
			return nil
		}
	}
	return p.fail(p.at, "a line of a hunk begins with a space, - or +; this is %.80q", line)
}
