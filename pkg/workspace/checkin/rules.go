package checkin

import (
	"path/filepath"
	"strings"

	"kaged.dev/pkg/workspace/ignore"
)

// systemAttributes is the attribute file of all users.
const systemAttributes = "/etc/gitattributes"

// The memory for the lists of the work tree, in bytes, and the part of it for each list besides its rules.
const (
	maxLists = 16 << 20
	listCost = 64
)

// Rules are the attributes and settings of one repository. They are for one goroutine.
type Rules struct {
	top      string
	settings ignore.Settings
	macros   macros
	// above are the lists stronger than those of the work tree, below the weaker ones.
	above, below []*list
	folders      map[string]*list // lists of the work tree by folder
	room         int              // bytes left for them
	cut          bool
}

// Open reads the rules of the repository with its work tree at top; common is the git folder that its work trees share.
func Open(top, common string, user *ignore.User) *Rules {
	r := &Rules{
		top: top, settings: user.Settings(top, common), macros: builtin(), folders: map[string]*list{}, room: maxLists,
	}
	// Later definitions of a macro replace earlier ones, so the weakest file comes first.
	system := r.parse(ignore.ReadFile(systemAttributes), "", r.macros)
	own := r.parse(r.settings.File("core.attributesfile", user.UserAttributes()), "", r.macros)
	r.folders[""] = r.parse(ignore.ReadFile(filepath.Join(top, FileName)), "", r.macros)
	r.above = []*list{r.parse(ignore.ReadFile(filepath.Join(common, "info", "attributes")), "", r.macros)}
	r.below = []*list{own, system}
	return r
}

// parse reads a file of attributes, and notes whether rules were left out.
func (r *Rules) parse(content []byte, base string, m macros) *list {
	l := parse(content, base, m)
	r.cut = r.cut || l.cut
	return l
}

// Cut reports whether attributes were left out, because a file has too many or those of all folders are too large.
func (r *Rules) Cut() bool { return r.cut }

// folder returns the attributes that a folder of the work tree holds, an empty list if there is no room for them. dir
// is "" or ends with a slash.
func (r *Rules) folder(dir string) *list {
	if l, known := r.folders[dir]; known {
		return l
	}
	if r.room <= 0 {
		r.cut = true
		return &list{}
	}
	l := r.parse(ignore.ReadFile(filepath.Join(r.top, filepath.FromSlash(dir), FileName)), dir, nil)
	if r.room -= l.bytes + len(dir) + listCost; r.room < 0 {
		r.cut = true
		return &list{}
	}
	r.folders[dir] = l
	return l
}

// For returns the conversion of a file. rel is its path below the work tree, with slashes.
func (r *Rules) For(rel string) Conversion {
	lists := append([]*list{}, r.above...)
	for dir := rel; dir != ""; {
		dir = dir[:strings.LastIndexByte(strings.TrimSuffix(dir, "/"), '/')+1]
		lists = append(lists, r.folder(dir))
	}
	lists = append(lists, r.below...)
	found := lookup(lists, r.macros, rel, r.settings.Fold(), ignore.Steps)
	c := Conversion{lines: r.lines(found), ident: found["ident"] == set}
	if name := found["filter"]; isText(name) {
		c.LFS = name == "lfs"
		if r.settings.Get("filter."+name+".clean") != "" || r.settings.Get("filter."+name+".process") != "" {
			c.Driver = name
		}
	}
	if name := found["working-tree-encoding"]; isText(name) {
		c.encoding = name
	}
	return c
}

// isText reports whether the state of an attribute is a text.
func isText(state string) bool { return state != "" && state[0] != 0 }

// lines returns the conversion of line ends.
func (r *Rules) lines(found map[string]string) lineEnds {
	action := lineEndsOf(found["text"])
	if action == undefined {
		action = lineEndsOf(found["crlf"])
	}
	if eol := found["eol"]; action == undefined && (eol == "lf" || eol == "crlf") {
		return always
	}
	if action == undefined && (r.settings.Get("core.autocrlf") == "input" || r.settings.Is("core.autocrlf")) {
		return ofText
	}
	return action
}

// lineEndsOf returns the conversion that a state of the attribute text asks for.
func lineEndsOf(state string) lineEnds {
	switch state {
	case set, "input":
		return always
	case unset:
		return never
	case "auto":
		return ofText
	}
	return undefined
}
