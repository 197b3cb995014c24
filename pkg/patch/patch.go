// Package patch reads the envelope in which models write changes to several files, and finds out what its hunks mean in
// a file as it is.
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
// [Parse] reads it, strictly where a guess could do harm (a patch that was cut off, a line without its sign) and
// leniently where it cannot (code fences around it, blank lines between sections). [Section.Apply] places the hunks of
// one file: exactly, else but for white space at the ends of lines, else but for indentation too, else but for
// typographic characters. At each of these a hunk must fit in one place only; it is never applied to the first of
// several. Lines that stay keep every byte, and new lines take the line endings of their neighbours.
//
// The package touches no file.
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
	// Path is the file as the patch names it, MoveTo where an update moves it, "" if it stays.
	Path, MoveTo string
	// Line is where the section begins in the patch, counted from 1.
	Line int
	// Content is the text of an added file.
	Content string
	// Hunks are the changes of an update, in the order of the file.
	Hunks []Hunk
}

// Hunk is one changed place.
type Hunk struct {
	// Line is where the hunk begins in the patch, counted from 1.
	Line int
	// Headers are lines of the file above the place, the outermost first.
	Headers []string
	// At is the line the hunk says it begins at, as the headers of unified diffs do, -1 if it does not say.
	At int
	// Lines are the old and the new lines.
	Lines []Line
	// EOF says that the place is the end of the file.
	EOF bool

	// blank is how many of the last lines are empty in the patch: context or only space before the next hunk.
	blank int
	// marked says that a line is said to have no line break at its end, so that the hunk decides on that.
	marked bool
}

// Line is a line of a hunk.
type Line struct {
	// Op is ' ' for a line that stays, '-' for one that goes and '+' for one that comes.
	Op byte
	// Text is the line without line break.
	Text string
	// NoEnd says that it is the last of its file and has no line break.
	NoEnd bool
}
