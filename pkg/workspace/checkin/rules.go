package checkin

import (
	"path/filepath"
	"strings"

	"kaged.dev/pkg/workspace/ignore"
)

// systemAttributes is the attribute file of all users.
const systemAttributes = "/etc/gitattributes"

// Rules are the attributes and settings of one repository. They are for one goroutine.
type Rules struct {
	top      string
	settings ignore.Settings
	macros   macros
	// above are the lists stronger than those of the work tree, below the weaker ones.
	above, below []*list
	folders      map[string]*list // lists of the work tree by folder
}

// Open reads the rules of the repository with its work tree at top; common is the git folder that its work trees share.
func Open(top, common string, user *ignore.User) *Rules {
	r := &Rules{top: top, settings: user.Settings(top, common), macros: builtin(), folders: map[string]*list{}}
	// Later definitions of a macro replace earlier ones, so the weakest file comes first.
	system := parse(ignore.ReadFile(systemAttributes), "", r.macros)
	own := parse(r.settings.File("core.attributesfile", user.UserAttributes()), "", r.macros)
	r.folders[""] = parse(ignore.ReadFile(filepath.Join(top, FileName)), "", r.macros)
	r.above = []*list{parse(ignore.ReadFile(filepath.Join(common, "info", "attributes")), "", r.macros)}
	r.below = []*list{own, system}
	return r
}

// folder returns the attributes that a folder of the work tree holds. dir is "" or ends with a slash.
func (r *Rules) folder(dir string) *list {
	l, known := r.folders[dir]
	if !known {
		l = parse(ignore.ReadFile(filepath.Join(r.top, filepath.FromSlash(dir), FileName)), dir, nil)
		r.folders[dir] = l
	}
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
