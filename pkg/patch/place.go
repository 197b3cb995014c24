package patch

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"kaged.dev/pkg/edit"
	"kaged.dev/pkg/fault"
)

// place finds the position of a hunk: after the changes of the preceding hunks, or else before them. taken are the
// lines changed already.
func (f *file) place(h *Hunk, cursor int, taken []span) (place, *Failure) {
	overlapping := func(p place) bool { return overlaps(h, p, taken) }
	places, failure := f.search(h, cursor)
	places = slices.DeleteFunc(places, overlapping)
	if len(places) == 0 && cursor > 0 {
		before, _ := f.search(h, 0)
		if before = slices.DeleteFunc(before, overlapping); len(before) > 0 {
			places, failure = before, nil
		}
	}
	switch {
	case len(places) == 1:
		return places[0], nil
	case len(places) > 1:
		if i := slices.IndexFunc(places, func(p place) bool { return p.line == h.At-1 }); i >= 0 && h.At > 0 {
			return places[i], nil
		}
		return place{}, ambiguous(places)
	case failure != nil:
		return place{}, failure
	}
	return place{}, f.missing(h)
}

// overlaps reports whether a hunk at a position would change text that is changed already.
func overlaps(h *Hunk, at place, taken []span) bool {
	if len(taken) == 0 {
		return false
	}
	for _, s := range h.spans(at) {
		if slices.ContainsFunc(taken, s.touches) {
			return true
		}
	}
	return false
}

// search returns the positions where a hunk fits in the lines from start, at the first level with any. The failure
// names a missing part other than the hunk's lines.
func (f *file) search(h *Hunk, start int) ([]place, *Failure) {
	anchors, failure := f.anchors(h.Headers, start)
	if failure != nil {
		return nil, failure
	}
	old := h.old(len(h.Lines))
	if len(old) == 0 {
		return f.insertion(h, anchors, start)
	}
	var doubtful []place
	for l := exact; l < levels; l++ {
		for blank := 0; blank <= h.blank; blank++ {
			lines := len(h.Lines) - blank
			wanted := h.old(lines)
			if len(wanted) == 0 {
				break
			}
			for i := range wanted {
				wanted[i] = l.key(wanted[i])
			}
			places := f.at(wanted, l, h, anchors, start)
			found := make([]place, len(places))
			for i, line := range places {
				found[i] = place{line, l, lines}
			}
			switch {
			case len(found) == 1, len(found) > 1 && blank == 0:
				return found, nil
			case len(found) > 1 && doubtful == nil:
				doubtful = found
			}
		}
	}
	return doubtful, nil
}

// old returns the first n lines of a hunk that must be in the file.
func (h *Hunk) old(n int) []string {
	list := make([]string, 0, n)
	for _, line := range h.Lines[:n] {
		if line.Op != '+' {
			list = append(list, line.Text)
		}
	}
	return list
}

// at returns the positions of wanted lines: at the end if the hunk requires it, below one of the anchors, or anywhere.
func (f *file) at(wanted []string, l level, h *Hunk, anchors []int, start int) []int {
	if end := f.count() - len(wanted); h.EOF && end >= start && f.fits(wanted, l, end) {
		return []int{end}
	}
	if anchors == nil {
		places := f.find(wanted, l, start, maxPlaces)
		if line := h.At - 1; len(places) == maxPlaces && line > places[maxPlaces-1] && line <= f.count()-len(wanted) &&
			f.fits(wanted, l, line) {
			places = append(places, line) // the position given by the hunk's number
		}
		return places
	}
	found := f.find(wanted, l, anchors[0], f.count())
	var places []int
	for _, anchor := range anchors {
		// In the anchor's block the hunk must be unique; after the block the next position counts.
		first, _ := slices.BinarySearch(found, anchor)
		end, _ := slices.BinarySearch(found, f.blockEnd(anchor))
		places = append(places, found[first:min(max(end, first+1), len(found))]...)
		if len(places) > maxPlaces && places[0] != places[len(places)-1] {
			break
		}
	}
	slices.Sort(places)
	return slices.Compact(places)
}

// insertion returns the positions of a hunk that only adds lines.
func (f *file) insertion(h *Hunk, anchors []int, start int) ([]place, *Failure) {
	var places []place
	for _, anchor := range anchors {
		places = append(places, place{anchor + 1, exact, len(h.Lines)})
	}
	switch {
	case len(places) > 0:
	case h.EOF, f.count() == 0:
		places = []place{{f.count(), exact, len(h.Lines)}}
	case h.At > 0 && h.At-1 >= start && h.At-1 <= f.count():
		places = []place{{h.At - 1, exact, len(h.Lines)}}
	default:
		return nil, &Failure{
			Code: fault.HunkNotFound,
			Reason: "only adds lines and does not say where: give it context lines, an @@ header with the line above, or " +
				strconv.Quote(
					eofMark,
				),
		}
	}
	return places, nil
}

// anchors returns the lines that match the innermost header, nil without headers. Each header is below the preceding
// one.
func (f *file) anchors(headers []string, start int) ([]int, *Failure) {
	var found []int
	for i, header := range headers {
		from := start
		if i > 0 {
			from = found[0] + 1
		}
		if found = f.headerLines(header, from); len(found) == 0 {
			failure := &Failure{
				Code:   fault.HunkNotFound,
				Reason: fmt.Sprintf("does not fit: its header %.80q is not in the file", header),
			}
			if i > 0 || start > 0 {
				failure.Reason += " below the place before it"
			}
			f.describe(failure, []string{header})
			return nil, failure
		}
	}
	return found, nil
}

// headerLines returns the lines equal to a header, or else those that begin with it.
func (f *file) headerLines(header string, start int) []int {
	for l := exact; l < levels; l++ {
		if found := f.find([]string{l.key(header)}, l, start, f.count()); len(found) > 0 {
			return found
		}
	}
	var found []int
	key := typographic.key(header)
	for i := start; i < f.count(); i++ {
		if strings.HasPrefix(typographic.key(f.line(i)), key) {
			found = append(found, i)
		}
	}
	return found
}

// blockEnd returns the line after the block that begins with a line: the next line that is not indented deeper.
func (f *file) blockEnd(first int) int {
	depth := len(indentOf(f.line(first)))
	for i := first + 1; i < f.count(); i++ {
		line := f.line(i)
		if strings.TrimSpace(line) != "" && len(indentOf(line)) <= depth {
			return i
		}
	}
	return f.count()
}

func ambiguous(places []place) *Failure {
	f := &Failure{Code: fault.HunkAmbiguous}
	var lines []string
	for _, p := range places[:min(len(places), maxPlaces)] {
		f.Places = append(f.Places, p.line+1)
		lines = append(lines, strconv.Itoa(p.line+1))
	}
	text := strings.Join(lines, ", ")
	if len(places) >= maxPlaces {
		text += " and maybe more"
	}
	f.Reason = fmt.Sprintf(
		"fits in several places, at lines %s: give it more context lines, or an @@ header with a line above the one that "+
			"is meant",
		text,
	)
	return f
}

// missing reports that a hunk's lines are not in the file, and names the most similar ones.
func (f *file) missing(h *Hunk) *Failure {
	failure := &Failure{Code: fault.HunkNotFound, Reason: "does not fit: its lines are not in the file"}
	f.describe(failure, h.old(len(h.Lines)-h.blank))
	return failure
}

// describe adds the text most similar to the wanted lines, and the first line that differs.
func (f *file) describe(failure *Failure, wanted []string) {
	line, text, _ := edit.Nearest(f.text, strings.Join(wanted, "\n"))
	if line == 0 {
		return
	}
	failure.Nearest, failure.Text = line, text
	failure.Reason += fmt.Sprintf("; the nearest text begins at line %d", line)
	for i, want := range wanted {
		at := line - 1 + i
		if at >= f.count() {
			failure.Reason += ", and the file ends after it"
			return
		}
		if typographic.key(f.line(at)) != typographic.key(want) {
			failure.Reason += fmt.Sprintf(", where line %d is %.120q and the patch has %.120q", at+1, f.line(at), want)
			return
		}
	}
	failure.Reason += ", which is changed by a hunk before it"
}
