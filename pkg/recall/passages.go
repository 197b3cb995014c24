package recall

import "strings"

// Limits of a passage: it ends at the first blank line after half of them. A single line may be longer.
const (
	maxLines = 30
	maxBytes = 1800
)

// passage is a piece of a note: whole lines, counted from 1.
type passage struct {
	from, to int
	text     string
	// trail are the headings above the passage, the outermost first.
	trail []string
}

// cut returns the passages of a text in their order; together they are the text.
func cut(text string) []passage {
	c := cutter{}
	for rest := text; rest != ""; {
		line, after, _ := strings.Cut(rest, "\n")
		size := len(rest) - len(after)
		c.line(line, size)
		rest = after
	}
	c.end(text)
	return c.passages
}

type cutter struct {
	passages []passage
	headings []heading
	fence    string // marks that close the code block around the line
	lines    int    // lines before the current one
	from     int    // first line of the passage, 0 without a passage
	size     int    // size of the passage in bytes
	body     bool   // whether the passage has more than headings and blank lines
	blank    bool   // whether the preceding line is blank
	sizes    []int
}

type heading struct {
	level int
	text  string
}

// line adds the next line, of size bytes with its line break.
func (c *cutter) line(line string, size int) {
	line = strings.TrimSpace(line)
	level := 0
	if marks := fenceOf(line); marks != "" {
		switch {
		case c.fence == "":
			c.fence = marks
		case strings.HasPrefix(marks, c.fence) && strings.Trim(line, marks[:1]) == "":
			c.fence = ""
		}
	} else if c.fence == "" {
		level = levelOf(line)
	}
	long := c.size+size > maxBytes || c.lines-c.from+1 >= maxLines
	half := c.blank && (c.size > maxBytes/2 || c.lines-c.from+1 > maxLines/2)
	if c.from > 0 && (long || c.body && (level > 0 || half)) {
		c.close()
	}
	if c.from == 0 {
		c.from = c.lines + 1
	}
	if level > 0 {
		for len(c.headings) > 0 && c.headings[len(c.headings)-1].level >= level {
			c.headings = c.headings[:len(c.headings)-1]
		}
		c.headings = append(c.headings, heading{level, strings.Trim(line, "# \t")})
	} else if line != "" {
		c.body = true
	}
	c.blank = line == ""
	c.size += size
	c.lines++
}

// close ends the passage before the next line.
func (c *cutter) close() {
	var trail []string
	for _, h := range c.headings {
		trail = append(trail, h.text)
	}
	c.passages = append(c.passages, passage{from: c.from, to: c.lines, trail: trail})
	c.sizes = append(c.sizes, c.size)
	c.from, c.size, c.body = 0, 0, false
}

// end closes the last passage and gives each its text.
func (c *cutter) end(text string) {
	if c.from > 0 {
		c.close()
	}
	for i, size := range c.sizes {
		c.passages[i].text, text = text[:size], text[size:]
	}
}

// fenceOf returns the marks that open or close a code block, "" for another line.
func fenceOf(line string) string {
	for _, mark := range []string{"`", "~"} {
		if rest := strings.TrimLeft(line, mark); len(line)-len(rest) >= 3 {
			return line[:len(line)-len(rest)]
		}
	}
	return ""
}

// levelOf returns the level of a heading, 0 for another line.
func levelOf(line string) int {
	rest := strings.TrimLeft(line, "#")
	level := len(line) - len(rest)
	if level > 6 || rest != "" && rest[0] != ' ' && rest[0] != '\t' {
		return 0
	}
	return level
}
