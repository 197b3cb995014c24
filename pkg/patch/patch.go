// Package patch parses the envelope in which models write changes to several files, and applies its hunks to the
// present text of a file.
//
//	*** Begin Patch
//	*** Add File: path
//	+every line of the new file
//	*** Update File: path
//	*** Move to: new path
//	@@ a line above the change
//	 context
//	-old line
//	+new line
//	*** End of File
//	*** Delete File: path
//	*** End Patch
//
// [Parse] reads it, strictly if a guess could do harm (a truncated patch, a line without its sign) and leniently
// otherwise (code fences around it, blank lines between sections). [Section.Apply] places the hunks of one file:
// exactly, else ignoring white space at the ends of lines, else also ignoring indentation, else also ignoring
// typographic characters. At each level a hunk must fit in exactly one place; it is never applied to the first of
// several. Unchanged lines keep every byte, and new lines get the line endings of their neighbours.
//
// The package does not access files.
package patch

// Op is the effect of a section on its file.
type Op string

// The effects of sections.
const (
	Add    Op = "add"
	Update Op = "update"
	Delete Op = "delete"
)

// Patch is the content of an envelope.
type Patch struct {
	Sections []Section
}

// Section is about one file.
type Section struct {
	Op Op
	// Path is the file's path in the patch. MoveTo is the new path of an update that moves it, "" if it stays.
	Path, MoveTo string
	// Line is the first line of the section in the patch, counted from 1.
	Line int
	// Content is the text of an added file.
	Content string
	// Hunks are the changes of an update, in the order of the file.
	Hunks []Hunk
}

// Hunk is one change.
type Hunk struct {
	// Line is the first line of the hunk in the patch, counted from 1.
	Line int
	// Headers are lines of the file above the change, the outermost first.
	Headers []string
	// At is the hunk's first line in the file, as in the headers of unified diffs, -1 if it is not given.
	At int
	// Lines are the old and the new lines.
	Lines []Line
	// EOF means that the change is at the end of the file.
	EOF bool

	// blank is the number of last lines that are empty in the patch: context, or only space before the next hunk.
	blank int
	// marked is true if a line is marked as having no line break, so that the hunk decides about the final line break.
	marked bool
}

// Line is a line of a hunk.
type Line struct {
	// Op is ' ' for an unchanged line, '-' for a removed line and '+' for a new line.
	Op byte
	// Text is the line without line break.
	Text string
	// NoEnd means that it is the last line of its file and has no line break.
	NoEnd bool
}
