//go:build cgo

package syntax

// #include "guard.h"
// const void *tree_sitter_hcl(void);
// const void *tree_sitter_kotlin(void);
// const void *tree_sitter_swift(void);
import "C"

import (
	"unsafe"

	_ "github.com/smacker/go-tree-sitter/hcl"
	_ "github.com/smacker/go-tree-sitter/kotlin"
	_ "github.com/smacker/go-tree-sitter/swift"
	lua "github.com/tree-sitter-grammars/tree-sitter-lua/bindings/go"
	yaml "github.com/tree-sitter-grammars/tree-sitter-yaml/bindings/go"
	bash "github.com/tree-sitter/tree-sitter-bash/bindings/go"
	csharp "github.com/tree-sitter/tree-sitter-c-sharp/bindings/go"
	c "github.com/tree-sitter/tree-sitter-c/bindings/go"
	cpp "github.com/tree-sitter/tree-sitter-cpp/bindings/go"
	css "github.com/tree-sitter/tree-sitter-css/bindings/go"
	golang "github.com/tree-sitter/tree-sitter-go/bindings/go"
	html "github.com/tree-sitter/tree-sitter-html/bindings/go"
	java "github.com/tree-sitter/tree-sitter-java/bindings/go"
	javascript "github.com/tree-sitter/tree-sitter-javascript/bindings/go"
	json "github.com/tree-sitter/tree-sitter-json/bindings/go"
	php "github.com/tree-sitter/tree-sitter-php/bindings/go"
	python "github.com/tree-sitter/tree-sitter-python/bindings/go"
	ruby "github.com/tree-sitter/tree-sitter-ruby/bindings/go"
	rust "github.com/tree-sitter/tree-sitter-rust/bindings/go"
	typescript "github.com/tree-sitter/tree-sitter-typescript/bindings/go"
)

// grammars returns the compiled-in parse tables by the name of their language.
func grammars() map[string]*grammar {
	pointers := map[string]unsafe.Pointer{
		"bash": unsafe.Pointer(C.kaged_guarded_bash(bash.Language())),
		"c":    c.Language(), "cpp": cpp.Language(), "csharp": csharp.Language(), "css": css.Language(),
		"go": golang.Language(), "hcl": unsafe.Pointer(C.tree_sitter_hcl()), "html": html.Language(), "java": java.Language(),
		"javascript": javascript.Language(), "json": json.Language(),
		"kotlin": unsafe.Pointer(C.kaged_guarded_kotlin(C.tree_sitter_kotlin())),
		"lua":    lua.Language(), "php": php.LanguagePHPOnly(), "python": python.Language(),
		"ruby":  unsafe.Pointer(C.kaged_guarded_ruby(ruby.Language())),
		"rust":  rust.Language(),
		"swift": unsafe.Pointer(C.tree_sitter_swift()), "tsx": typescript.LanguageTSX(),
		"typescript": typescript.LanguageTypescript(),
		"yaml":       unsafe.Pointer(C.kaged_guarded_yaml(yaml.Language())),
	}
	all := make(map[string]*grammar, len(pointers))
	for name, p := range pointers {
		all[name] = newGrammar(p)
	}
	return all
}
