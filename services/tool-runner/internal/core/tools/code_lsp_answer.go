package tools

import (
	"context"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"kaged.dev/pkg/clip"
	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/workspace/paths"
	"kaged.dev/pkg/workspace/text"
	"kaged.dev/pkg/workspace/walk"
	"kaged.dev/services/tool-runner/internal/core/language"
	"kaged.dev/services/tool-runner/internal/core/tool"
)

const (
	// lspFolderFiles is the maximum number of files of a folder in one query, lspPreviewRunes the maximum length of a
	// preview line, lspPreviewFiles the maximum number of files with previews, lspPreviewBytes the number of bytes read
	// from each.
	lspFolderFiles  = 2000
	lspPreviewRunes = 200
	lspPreviewFiles = 200
	lspPreviewBytes = 1 << 20
)

// lspPlace returns the position that a call names, counted from 0.
func (d Deps) lspPlace(ctx context.Context, call *tool.Call, p *codeLspParams) (language.Place, error) {
	at := language.Place{Line: int(*p.Line) - 1}
	if p.Symbol == "" {
		at.Character = int(*p.Character)
		return at, nil
	}
	data, _, err := d.load(ctx, call.Paths[0])
	if err != nil {
		return at, err
	}
	content, _, _ := text.Decode(data)
	lines := strings.Split(content, "\n")
	if at.Line >= len(lines) {
		return at, fault.New(fault.InvalidParams, "Line %d is after the end of %s, which has %d lines.", at.Line+1,
			call.Paths[0].Show, strings.Count(strings.TrimSuffix(content, "\n"), "\n")+1).With("field", "line")
	}
	name, number := p.Symbol, 1
	if i := strings.LastIndexByte(name, '#'); i > 0 {
		if n, err := strconv.Atoi(name[i+1:]); err == nil && n > 0 {
			name, number = name[:i], n
		}
	}
	line, from := lines[at.Line], 0
	for {
		i := strings.Index(line[from:], name)
		if i < 0 {
			return at, fault.New(fault.InvalidParams, "Line %d of %s has no %s; it is: %s", at.Line+1, call.Paths[0].Show,
				p.Symbol,
				clip.MarkedRunes(strings.TrimSpace(line), lspPreviewRunes, "...")).With("field", "symbol")
		}
		if number -= wholeWord(line, from+i, name); number == 0 {
			at.Character = len(utf16.Encode([]rune(line[:from+i])))
			return at, nil
		}
		from += i + len(name)
	}
}

// wholeWord is 1 if a name is a whole word of a line, and 0 if it is a part of a longer word.
func wholeWord(line string, at int, name string) int {
	letter := func(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) }
	first, _ := utf8.DecodeRuneInString(name)
	last, _ := utf8.DecodeLastRuneInString(name)
	before, _ := utf8.DecodeLastRuneInString(line[:at])
	after, _ := utf8.DecodeRuneInString(line[at+len(name):])
	if letter(first) && letter(before) || letter(last) && letter(after) {
		return 0
	}
	return 1
}

// lspFiles returns the files that the caller may read below the folder of a call.
func (d Deps) lspFiles(ctx context.Context, call *tool.Call) ([]string, error) {
	var mu sync.Mutex
	var list []string
	start := call.Paths[0]
	want := func(folder paths.Path, name string) bool { return call.Access.Allows(folder.Join(name).Abs(), false) }
	err := walk.Files(ctx, start, d.walkOptions(call, start, want), func(_ context.Context, folder *walk.Folder,
		names []string,
	) {
		mu.Lock()
		defer mu.Unlock()
		for _, name := range names {
			list = append(list, folder.Path.Join(name).Abs())
		}
	})
	slices.Sort(list)
	return list[:min(len(list), lspFolderFiles)], err
}

// lspView shows files of an answer to a caller, according to its rights.
type lspView struct {
	call  *tool.Call
	files map[string]*lspFile
}

type lspFile struct {
	show    string
	outside bool     // outside the caller's cage
	lines   []string // nil if no preview is shown
}

// file returns a file of an answer. It reads the file's lines only if the caller may read them.
func (v *lspView) file(abs string, preview bool) *lspFile {
	if f := v.files[abs]; f != nil {
		return f
	}
	f := &lspFile{show: abs, outside: !v.call.Access.Allows(abs, false)}
	if path, err := v.call.Space.Resolve("path", abs); err == nil {
		f.show = path.Show
		if preview && !f.outside && v.call.Access.Allows(path.Abs(), false) && len(v.files) < lspPreviewFiles {
			f.lines = lspLines(path)
		}
	}
	v.files[abs] = f
	return f
}

// lspLines returns the first lines of a text, nil if it cannot be read.
func lspLines(path paths.Path) []string {
	f, _, err := path.OpenFile()
	if err != nil {
		return nil
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, lspPreviewBytes))
	if err != nil {
		return nil
	}
	content, _, ok := text.Decode(data)
	if !ok {
		return nil
	}
	return strings.Split(content, "\n")
}

func (v *lspView) places(list []language.Location) *[]lspPlace {
	out := []lspPlace{}
	for _, l := range list {
		f := v.file(l.Path, true)
		place := lspPlace{Path: f.show, Line: l.Start.Line + 1, Character: l.Start.Character, OutsideCage: f.outside}
		if l.Start.Line < len(f.lines) {
			preview, _ := clip.Runes(strings.TrimSpace(f.lines[l.Start.Line]), lspPreviewRunes)
			place.Preview = &preview
		}
		out = append(out, place)
	}
	return &out
}

// lspAnswer returns an answer in the form for the model.
func (d Deps) lspAnswer(call *tool.Call, p *codeLspParams, a language.Answer) codeLspResult {
	view := &lspView{call, map[string]*lspFile{}}
	result := codeLspResult{Completeness: completenessOf(a.Completeness), JSON: a.JSON}
	count := 0
	switch p.Action {
	case "diagnostics":
		result.Path = call.Paths[0].Show
		list := []lspDiagnostic{}
		for _, diagnostic := range a.Diagnostics {
			list = append(list, view.diagnostic(diagnostic))
		}
		result.Diagnostics, count = &list, len(list)
	case "references":
		result.References = view.places(a.Locations)
		count = len(*result.References)
	case "definition", "type_definition", "implementation":
		result.Definitions = view.places(a.Locations)
		return result
	case "symbols":
		list := []lspSymbol{}
		for _, s := range a.Symbols {
			f := view.file(s.At.Path, false)
			list = append(list, lspSymbol{
				s.Name, s.Kind, s.Container, f.show, s.At.Start.Line + 1, s.At.Start.Character,
				f.outside,
			})
		}
		result.Symbols, count = &list, len(list)
	case "code_actions":
		list := []lspAction{}
		for _, action := range a.Actions {
			if made, ok := view.action(action); ok {
				list = append(list, made)
			}
		}
		result.Actions, count = &list, len(list)
	case "hover":
		result.hover(a.Hover)
		return result
	default:
		return result
	}
	result.Count = &count
	return result
}

func completenessOf(c language.Completeness) *lspCompleteness {
	shown := lspCompleteness(c)
	return &shown
}

func (v *lspView) diagnostic(d language.Diagnostic) lspDiagnostic {
	return lspDiagnostic{
		Path: v.file(d.At.Path, false).show, Line: d.At.Start.Line + 1, Character: d.At.Start.Character,
		EndLine:      d.At.End.Line + 1,
		EndCharacter: d.At.End.Character, Severity: severities[min(max(d.Severity, 1), len(severities))-1],
		Message: d.Message, Code: d.Code, Source: d.Source,
	}
}

// action returns a code action, and whether the caller may read every file it edits.
func (v *lspView) action(a contract.CodeAction) (lspAction, bool) {
	made := lspAction{Title: a.Title, Kind: a.Kind, Preferred: a.Preferred, Edits: []lspEdit{}}
	for _, e := range a.Edits {
		f := v.file(e.Path, false)
		if f.outside {
			return made, false
		}
		made.Edits = append(made.Edits, lspEdit{f.show, e.Line + 1, e.Old, e.New})
	}
	return made, true
}

func (r *codeLspResult) hover(h *language.About) {
	content, documentation := "", ""
	if h != nil {
		content, documentation = h.Content, h.Documentation
		if h.At != nil {
			r.Range = &lspRange{
				lspPoint{h.At.Start.Line + 1, h.At.Start.Character}, lspPoint{h.At.End.Line + 1, h.At.End.Character},
			}
		}
	}
	r.Content, r.Documentation = &content, &documentation
}
