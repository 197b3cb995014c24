package project

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"kaged.dev/pkg/clip"
	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/termtext"
	"kaged.dev/pkg/workspace/paths"
)

// The limits of instructions: the bytes of all texts, the levels of imports, the number of imported files, and the
// number of folders up to the repository's root.
const (
	maxInstructions = 64 << 10
	maxImportDepth  = 5
	maxImports      = 64
	maxFolders      = 16
)

// instructionFiles are the names in a folder; the first existing file counts.
var instructionFiles = []string{"AGENTS.md", "CLAUDE.md"}

// toolFolders are the hidden folders of a project from which files may be imported. Other hidden folders are excluded.
var toolFolders = []string{".kaged", ".agents", ".claude", ".cursor", ".github"}

// instructions returns the project's instructions, [dsl.InstructionsPath], as one file: the texts of AGENTS.md, or of
// CLAUDE.md in a folder without AGENTS.md, of the repository's root and of each folder down to the project, with the
// project's own text last, with the files that they import. Invisible characters are removed. A link that leads out of
// the project, a pipe and a file that is no text count as missing.
func (o Options) instructions(root, known string, left int64) File {
	file := File{Path: dsl.InstructionsPath, State: Missing}
	space, err := paths.Open(root, paths.Rules{Denied: o.Rules.Denied, Home: o.Rules.Home, Within: o.Rules.Within})
	if err != nil {
		return file
	}
	defer space.Close()
	text := joined(gathered(space))
	if text == "" {
		return file
	}
	sum := sha256.Sum256([]byte(text))
	file.SHA256 = hex.EncodeToString(sum[:])
	switch {
	case file.SHA256 == known:
		file.State = Unchanged
	case int64(len(text)) > left:
		file.State, file.SHA256 = Refused, ""
		file.Reason = "The instructions do not fit into this answer; ask for fewer files at once."
	default:
		file.State, file.Content = Found, []byte(text)
	}
	return file
}

// folderText is the instructions file of one folder.
type folderText struct{ name, text string }

// gathered returns the instructions of each folder, with the project's own last.
func gathered(space *paths.Space) []folderText {
	var list []folderText
	add := func(name, text string) {
		if text = strings.TrimSpace(visible(text)); text != "" {
			list = append(list, folderText{name, text})
		}
	}
	for _, folder := range foldersAbove(space.Root()) {
		name, text := above(space, folder)
		add(path.Join(filepath.Base(folder), name), text)
	}
	r := importer{space: space, seen: map[string]bool{}, left: maxImports}
	for _, name := range instructionFiles {
		if text, ok := textIn(space, name); ok {
			r.seen[name] = true
			add("./"+name, r.imported(text, ".", 1))
			break
		}
	}
	return list
}

// visible returns a text without invisible characters: controls, bidirectional marks, tags, and the variation selectors
// that emoji do not use.
func visible(text string) string {
	return strings.Map(func(r rune) rune {
		if r >= 0xe0000 && r <= 0xe0fff || r >= 0xfe00 && r <= 0xfe0d {
			return -1
		}
		return r
	}, termtext.Text(text))
}

// joined returns texts as one text within the limit, each under its name. If they are too long together, the texts of
// the uppermost folders are cut at their ends.
func joined(list []folderText) string {
	size := 0
	for i := range list {
		list[i].text = fmt.Sprintf("# Instructions of %s\n\n%s", list[i].name, list[i].text)
		size += len(list[i].text) + 2
	}
	texts := make([]string, len(list))
	for i, part := range list {
		texts[i] = part.text
		if over := size - maxInstructions; over > 0 {
			texts[i] = cut(part.text, over)
			size -= len(part.text) - len(texts[i])
		}
	}
	texts = slices.DeleteFunc(texts, func(text string) bool { return text == "" })
	return strings.Join(texts, "\n\n")
}

// cut removes at least n bytes from the end of a text, at the end of a line if possible, and adds a note about it. It
// returns "" if there is no room.
func cut(text string, n int) string {
	const longLine = 1 << 10
	const note = "[The end is left out: the instructions are longer than 64 KiB.]"
	room := len(text) - n - len(note) - 1
	if room <= 0 {
		return ""
	}
	kept := clip.Bytes(text, room)
	if end := strings.LastIndexByte(kept, '\n'); end > len(kept)-longLine {
		kept = kept[:end]
	}
	return kept + "\n" + note
}

// foldersAbove returns the folders above a project up to the root of its repository, the root first. It returns none
// for a project outside a repository or at its root. The folders and the repository must belong to the project's owner.
func foldersAbove(root string) []string {
	owner, ok := ownerOf(root)
	if !ok {
		return nil
	}
	var list []string
	for folder := root; len(list) < maxFolders; {
		if by, there := ownerOf(filepath.Join(folder, ".git")); there {
			if by != owner {
				return nil
			}
			slices.Reverse(list)
			return list
		}
		up := filepath.Dir(folder)
		if by, there := ownerOf(up); up == folder || !there || by != owner {
			return nil
		}
		folder = up
		list = append(list, folder)
	}
	return nil
}

// ownerOf returns the user id of the owner of a file or folder, and false if it is missing or a link.
func ownerOf(name string) (uid uint32, ok bool) {
	var st unix.Stat_t
	if err := unix.Lstat(name, &st); err != nil || st.Mode&unix.S_IFMT == unix.S_IFLNK {
		return 0, false
	}
	return st.Uid, true
}

// above returns the instructions of a folder outside the project, which may not import files. They must belong to the
// project's owner.
func above(space *paths.Space, folder string) (name, text string) {
	at, err := paths.OpenRoot(folder)
	if err != nil {
		return "", ""
	}
	defer at.Close()
	for _, name := range instructionFiles {
		if space.Denied(filepath.Join(at.Path(), name)) {
			continue
		}
		f, _, err := at.At(name).OpenFile()
		if err != nil {
			continue
		}
		text, ok := textOf(f)
		var of, st unix.Stat_t
		owned := unix.Fstat(int(f.Fd()), &of) == nil && unix.Stat(space.Root(), &st) == nil && of.Uid == st.Uid
		f.Close()
		if ok && owned {
			return name, text
		}
	}
	return "", ""
}

// textIn returns the text of a file of the project, and false if it is missing or no text.
func textIn(space *paths.Space, name string) (string, bool) {
	at, err := space.Resolve("path", name)
	if err != nil || hidden(at.Rel) {
		return "", false
	}
	f, _, err := at.OpenFile()
	if err != nil {
		return "", false
	}
	defer f.Close()
	return textOf(f)
}

func textOf(f *os.File) (string, bool) {
	content, err := io.ReadAll(io.LimitReader(f, maxInstructions+1))
	if err != nil || len(content) > maxInstructions || !utf8.Valid(content) || slices.Contains(content, 0) {
		return "", false
	}
	return string(content), true
}

// importer replaces the import lines of a text by the imported files.
type importer struct {
	space *paths.Space
	seen  map[string]bool // files imported so far; each is imported once, which prevents cycles
	left  int             // the number of files that may still be imported
	size  int             // the number of imported bytes
}

// imported returns a text in which lines of the form @path are replaced by the files. Paths are relative to the folder
// of the text and inside the project. Lines in code are not replaced, nor lines without an importable file.
func (r *importer) imported(text, folder string, depth int) string {
	var b strings.Builder
	var code fence
	for line := range strings.Lines(text) {
		inside, ok := "", false
		if !code.holds(line) && depth <= maxImportDepth {
			inside, ok = r.target(line, folder, depth)
		}
		if !ok {
			b.WriteString(line)
			continue
		}
		b.WriteString(strings.TrimRight(inside, "\n") + "\n")
	}
	return b.String()
}

// target returns the file that a line imports.
func (r *importer) target(line, folder string, depth int) (string, bool) {
	name, ok := strings.CutPrefix(strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "- ")), "@")
	if !ok || name == "" || path.IsAbs(name) || strings.ContainsAny(name, " \t\x00") {
		return "", false
	}
	place := path.Join(folder, name)
	if hidden(place) || r.seen[place] || r.left == 0 || r.size > maxInstructions {
		return "", false
	}
	text, ok := textIn(r.space, place)
	if !ok {
		return "", false
	}
	r.seen[place] = true
	r.left--
	r.size += len(text)
	return r.imported(text, path.Dir(place), depth+1), true
}

// hidden reports whether a path leaves the project or goes through a hidden file or folder other than toolFolders.
func hidden(place string) bool {
	return slices.ContainsFunc(strings.Split(place, "/"), func(part string) bool {
		return strings.HasPrefix(part, ".") && !slices.Contains(toolFolders, part)
	})
}

// fence finds the blocks of code of a Markdown text.
type fence struct{ open string }

// holds reports whether a line belongs to a block of code, and updates the state at fences.
func (f *fence) holds(line string) bool {
	text := strings.TrimLeft(line, " ")
	indent := len(line) - len(text)
	text = strings.TrimSpace(text)
	for _, mark := range []string{"`", "~"} {
		run := len(text) - len(strings.TrimLeft(text, mark))
		switch {
		case run < 3 || indent > 3:
		case f.open == "":
			f.open = text[:run]
			return true
		case strings.HasPrefix(text, f.open) && run == len(text):
			f.open = ""
			return true
		}
	}
	return f.open != "" || indent > 3 || strings.HasPrefix(line, "\t")
}
