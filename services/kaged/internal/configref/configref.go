// Package configref writes the reference page of local.toml from the Config structs of the services and of package
// config, with their comments and defaults.
package configref

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"

	"kaged.dev/pkg/config"
	"kaged.dev/pkg/host"
)

//go:generate go run ./gen

// table is a table of local.toml: its struct, and the declaration of the struct.
type table struct {
	name     string
	file     string // relative to the repository
	strct    string
	defaults any // nil if zero selects the default, which is in the comment
}

// tables returns the tables of the page, in its order.
func tables(services []host.Module) []table {
	const (
		file    = "pkg/config/file.go"
		process = "pkg/config/process.go"
		servers = "pkg/config/servers.go"
		system  = "pkg/config/system.go"
	)
	list := []table{
		{"[providers.NAME]", "pkg/config/models.go", "Provider", nil},
		{"[[providers.NAME.models]]", "pkg/config/models.go", "Model", nil},
		{"[providers.NAME.models.price]", "pkg/config/models.go", "ModelPrice", nil},
		{"[projects]", file, "Projects", nil},
		{"[limits]", "pkg/config/limits.go", "Limits", nil},
		{"[ui]", file, "UI", nil},
		{"[database]", process, "Database", nil},
		{"[nats]", process, "NATS", nil},
		{"[host]", process, "Host", nil},
		{"[tls]", process, "TLS", nil},
		{"[system]", system, "System", nil},
		{"[[workspaces]]", system, "Workspace", nil},
		{"[telemetry]", process, "Telemetry", nil},
		{"[langfuse]", process, "Langfuse", nil},
		{"[lsp.servers.LANG]", servers, "LSPServer", nil},
		{"[dap.adapters.RUNTIME]", servers, "DAPAdapter", nil},
	}
	for _, s := range services {
		file := "services/" + s.Name + "/config.go"
		list = append(list, table{"[services." + s.Name + "]", file, "Config", s.Defaults})
		if s.Name == "sandbox-supervisor" {
			list = append(list, table{`[services.sandbox-supervisor.credentials."HOST:PORT"]`, file, "Credential", nil})
		}
	}
	return list
}

const intro = `# Configuration

Generated from the comments of the ` + "`Config`" + ` structs; run ` + "`make generate`" + ` after changing one.

` + "`local.toml`" +
	` belongs to the operator. A flag overrides the environment, the environment the file, and the file the defaults. The
environment variable of the key ` + "`a_b`" + ` of ` + "`[services.x-y]`" + ` is ` + "`KAGED_SERVICES_X_Y_A_B`" +
	`. An unknown key is an error with its line. Sizes are in
bytes, durations are text such as ` + "`\"90s\"`" + `.

Besides the tables below, ` + "`[models]`" + ` binds aliases (` + "`name = \"provider:model\"`" +
	`, or a list that is tried in order), ` + "`[default_tools]`" + `
switches tools (` + "`\"GLOB\" = {enabled = false}`" + `), and ` + "`operator_name`" + ` is the displayed name. Every ` +
	"`[services.NAME]`" + ` also has these keys:

- ` + "`listen`" + `: ` + "`\"unix:PATH\"`" + `, ` + "`\"host:port\"`" + ` (with the certificate of ` + "`[tls]`" +
	`), or a list of them;
- ` + "`address`" + `: the address for other services;
- ` + "`workspace`" + `, for the services of a workspace with a name: that name, as in their certificates;
- ` + "`metrics_listen`" + `, for a service in its own process: used instead of that of ` + "`[telemetry]`" + `.
`

// Page returns the page of these services. root is the repository.
func Page(root string, services []host.Module) (string, error) {
	var b strings.Builder
	b.WriteString(intro)
	for _, t := range tables(services) {
		groups, err := groupsOf(root, t.file, t.strct)
		if err != nil {
			return "", fmt.Errorf("%s: %w", t.name, err)
		}
		t.sayNotInForce(groups)
		fmt.Fprintf(&b, "\n## %s\n\n", t.name)
		if t.defaults == nil {
			b.WriteString("| key | meaning |\n|---|---|\n")
		} else {
			b.WriteString("| key | default | meaning |\n|---|---|---|\n")
		}
		for _, g := range groups {
			g.write(&b, t.defaults)
		}
	}
	return b.String(), nil
}

// group is a group of fields with one comment.
type group struct {
	doc    string
	fields []field
}

type field struct{ name, key string }

// groupsOf reads a struct's fields that are keys, with those of embedded structs. A field without a comment belongs to
// the previous comment.
func groupsOf(root, file, name string) ([]group, error) {
	parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, file), nil, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	object := parsed.Scope.Lookup(name)
	if object == nil {
		return nil, fmt.Errorf("%s declares no %s", file, name)
	}
	declared, ok := object.Decl.(*ast.TypeSpec).Type.(*ast.StructType)
	if !ok {
		return nil, fmt.Errorf("%s is no struct", name)
	}
	var groups []group
	for _, f := range declared.Fields.List {
		if len(f.Names) == 0 {
			inner, err := embedded(root, parsed, f.Type)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			groups = append(groups, inner...)
			continue
		}
		if f.Tag == nil {
			continue
		}
		key := reflect.StructTag(strings.Trim(f.Tag.Value, "`")).Get("toml")
		if key == "" || key == "-" {
			continue
		}
		if doc := f.Doc.Text(); doc != "" || len(groups) == 0 {
			groups = append(groups, group{doc: doc})
		}
		last := &groups[len(groups)-1]
		last.fields = append(last.fields, field{f.Names[0].Name, key})
	}
	return groups, nil
}

// embedded reads the keys of an embedded struct. The struct must be embedded by an alias, declared in the same file, of
// a struct in the file config.go of another package.
func embedded(root string, in *ast.File, typ ast.Expr) ([]group, error) {
	alias, ok := typ.(*ast.Ident)
	if !ok || alias.Obj == nil {
		return nil, errors.New("a struct is embedded by something else than an alias")
	}
	of, ok := alias.Obj.Decl.(*ast.TypeSpec).Type.(*ast.SelectorExpr)
	if !ok {
		return nil, fmt.Errorf("%s is no alias of a struct in another package", alias.Name)
	}
	for _, imported := range in.Imports {
		folder, ok := strings.CutPrefix(strings.Trim(imported.Path.Value, `"`), "kaged.dev/")
		if pkg, _ := of.X.(*ast.Ident); ok && pkg != nil && path.Base(folder) == pkg.Name {
			return groupsOf(root, path.Join(folder, "config.go"), of.Sel.Name)
		}
	}
	return nil, fmt.Errorf("the package of %s is not imported", alias.Name)
}

// sayNotInForce marks the keys of a table that have no effect.
func (t table) sayNotInForce(groups []group) {
	for i := range groups {
		for _, f := range groups[i].fields {
			for _, d := range config.Dormant {
				if "["+d.Table+"]" == t.name && d.Name == f.key {
					groups[i].doc = strings.TrimSpace(groups[i].doc) + " " + d.Reason()
				}
			}
		}
	}
}

var goName = regexp.MustCompile(`\b[A-Z][A-Za-z]+\b`)

// write writes the group's row.
func (g group) write(b *strings.Builder, defaults any) {
	keyOf := map[string]string{}
	var keys, values []string
	for _, f := range g.fields {
		keyOf[f.name] = f.key
		keys = append(keys, "`"+f.key+"`")
		if defaults != nil {
			values = append(values, shown(f.key, reflect.ValueOf(defaults).FieldByName(f.name)))
		}
	}
	doc := goName.ReplaceAllStringFunc(strings.Join(strings.Fields(g.doc), " "), func(name string) string {
		if key := keyOf[name]; key != "" {
			return "`" + key + "`"
		}
		return name
	})
	cells := []string{strings.Join(keys, ", ")}
	if defaults != nil {
		cells = append(cells, strings.Join(values, ", "))
	}
	fmt.Fprintf(b, "| %s | %s |\n", strings.Join(cells, " | "), strings.ReplaceAll(doc, "|", `\|`))
}

// byMachine are the keys with defaults that depend on the machine.
var byMachine = map[string]string{
	"run_starts": "as the machine has cores", "search_workers": "as the machine has cores",
	"syntax_parsers": "as the machine has cores",
}

// shown returns a default in the form for the page.
func shown(key string, v reflect.Value) string {
	if text := byMachine[key]; text != "" {
		return text
	}
	switch value := v.Interface().(type) {
	case config.Duration:
		return "`" + short(value.String()) + "`"
	case string:
		if value == "" {
			return "none"
		}
		return "`" + value + "`"
	case []string:
		if len(value) == 0 {
			return "none"
		}
		return "`" + strings.ReplaceAll(strings.Join(value, "`, `"), "|", `\|`) + "`"
	}
	if v.Kind() == reflect.Map && v.Len() == 0 {
		return "none"
	}
	return fmt.Sprint(v.Interface())
}

// short leaves out the zero ends of a duration.
func short(d string) string {
	d = strings.TrimSuffix(d, "0s")
	if strings.HasSuffix(d, "h0m") {
		d = strings.TrimSuffix(d, "0m")
	}
	if d == "" || !strings.ContainsAny(d[len(d)-1:], "smh") {
		return d + "0s"
	}
	return d
}
