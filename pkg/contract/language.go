package contract

// FileEdit is the change of one file by a language server's rename.
type FileEdit struct {
	Path, MovedTo string
	// SHA256 is the hash in hex of the content that the edit applies to, "" for a new file.
	SHA256 string
	// Content is the new content, nil for a file that is only moved or removed.
	Content []byte
	Removed bool
	Edits   int
}

// CodeAction is a fix or a refactoring of a language server.
type CodeAction struct {
	Title, Kind string
	Preferred   bool
	Edits       []Replacement
}

// Replacement is an edit as an old text, which occurs once in its file, and a new text.
type Replacement struct {
	Path     string
	Line     int
	Old, New string
}
