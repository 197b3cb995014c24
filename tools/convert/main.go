// Command convert writes the functions that copy one type to another: a Go value to its message, a row to a value.
// A package asks for them in comments, and convert writes them to its file convert_gen.go:
//
//	//convert:both .Proto SubjectFromProto Subject *commonv1.ApprovalSubject Agent=AgentPath
//	//convert:one  issueOf db.FindIssueRow issues.Issue OwnerUserID=Project.Owner
//	//convert:with >LegalTransitions=issues.Names(in.Status.Legal())
//	//convert:oneof event fromEvent contract.Event *harnessv1.RunEvent
//	//convert:use statusNames text
//	//convert:import apiv1 "kaged.dev/proto/gen/kaged/api/v1"
//
// one asks for a function from the first type to the second, both also for the reverse. A name that begins with a dot
// is a method of the first type; parameters after the first stand in parentheses behind the name. with goes on with
// the options of the line before:
//
//   - A=B: field A of the first type is field B of the second. Both may be paths, such as Owner.SessionID.
//   - >F=expr: field F of the second type is an expression of the value in; <F=expr is the same of the reverse.
//     An expression - leaves the field as it is.
//   - >string=f: each string in the second type goes through f; so do other basic types.
//   - >list: lists are never nil.
//
// All other fields have the same name but for case and underscores, and fields of embedded structs count as the
// struct's own. A field of the type to fill for which there is neither a source nor an option is an error, so no field
// is forgotten at a border. Fields convert by the first that applies: a conversion of these two types (another line,
// of this package or another; a function or map under use; a method Proto or a function with FromProto in its name),
// assignment, Go's conversions between numbers and between texts, milliseconds of a time.Duration or time.Time.
// A pointer is nil for a zero value; lists and maps convert each entry.
//
// oneof asks for the switch between a Go interface and a message's oneof: its cases are the conversions of the
// package between a type with that interface and a message in that oneof. A message without a line is converted to and
// from the type of its name beside the interface. Fields of a struct that stand for the cases
// of a oneof, of which one is set, need no line of their own.
//
// Usage: convert [-dir root]. It reads all packages below root that have such comments.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/tools/go/packages"
)

// output is the file with a package's conversions.
const output = "convert_gen.go"

func main() {
	dir := flag.String("dir", ".", "the root of the workspace")
	flag.Parse()
	if err := run(*dir); err != nil {
		fmt.Fprintln(os.Stderr, "convert:", err)
		os.Exit(1)
	}
}

func run(root string) error {
	root, err := filepath.Abs(root)
	if err != nil {
		return err
	}
	dirs, imports, err := find(root)
	if err != nil || len(dirs) == 0 {
		return err
	}
	pkgs, err := load(root, dirs, imports)
	if err != nil {
		return err
	}
	r, err := read(pkgs)
	if err != nil {
		return err
	}
	var failed []error
	for _, p := range r.packages {
		text, err := r.write(p)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		path := filepath.Join(p.dir, output)
		if was, err := os.ReadFile(path); err == nil && bytes.Equal(was, text) {
			continue
		}
		if err := os.WriteFile(path, text, 0o644); err != nil {
			return err
		}
	}
	return errors.Join(failed...)
}

var (
	directive = regexp.MustCompile(`(?m)^//convert:`)
	imported  = regexp.MustCompile(`(?m)^//convert:import \S+ "([^"]+)"`)
)

// find returns the folders below root with Go files that request conversions, and the imports that they name.
func find(root string) (dirs map[string]string, imports []string, err error) {
	dirs = map[string]string{}
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			own := path == filepath.Join(root, "bin") || path == filepath.Join(root, "tools")
			name := d.Name()
			if own || path != root && (name == "testdata" || name == "node_modules" || strings.HasPrefix(name, ".")) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || d.Name() == output {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil || !directive.Match(text) {
			return err
		}
		if _, known := dirs[filepath.Dir(path)]; !known {
			name := regexp.MustCompile(`(?m)^package (\w+)`).FindSubmatch(text)
			if name == nil {
				return fmt.Errorf("%s: no package clause", path)
			}
			dirs[filepath.Dir(path)] = string(name[1])
		}
		for _, m := range imported.FindAllSubmatch(text, -1) {
			imports = append(imports, string(m[1]))
		}
		return nil
	})
	return dirs, imports, err
}

// load loads the packages without their old conversions. They may refer to functions that do not exist yet.
func load(root string, dirs map[string]string, imports []string) ([]*packages.Package, error) {
	patterns, overlay := imports, map[string][]byte{}
	for dir, name := range dirs {
		rel, err := filepath.Rel(root, dir)
		if err != nil {
			return nil, err
		}
		patterns = append(patterns, "./"+filepath.ToSlash(rel))
		overlay[filepath.Join(dir, output)] = []byte("package " + name + "\n")
	}
	const mode = packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedSyntax |
		packages.NeedTypes | packages.NeedImports | packages.NeedDeps | packages.NeedTypesInfo
	return packages.Load(&packages.Config{Mode: mode, Dir: root, Overlay: overlay}, patterns...)
}
