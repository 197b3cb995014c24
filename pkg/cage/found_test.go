package cage

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/dsl"
)

// Findings of all sorts are shortened to MaxFindings, with each sort of git's, and several for each count of others.
func TestFindingsOfAllSorts(t *testing.T) {
	t.Parallel()
	kinds := []FoundKind{FoundGitlink, FoundRepository, FoundHookPath, FoundGitLink}
	for each := 1; each < 60; each++ {
		list := []contract.Finding{{Kind: "partial", Text: "a note"}}
		for i := range each {
			dir := "/" + strconv.Itoa(i) + "/"
			for _, kind := range kinds {
				list = append(list, contract.Finding{Kind: string(kind), Path: dir + "a"})
			}
			list = append(list, contract.Finding{Kind: string(FoundName), Path: dir + "config"})
			for _, p := range dsl.ProtectedNames {
				path := dir + strings.ReplaceAll(p.Name, "*", "x")
				list = append(list, contract.Finding{Kind: string(FoundName), Path: path})
			}
		}
		short := shortened(list)
		if len(short) > MaxFindings {
			t.Errorf("%d of each sort: %d findings", each, len(short))
		}
		for _, kind := range kinds {
			if !slices.ContainsFunc(short, func(f contract.Finding) bool { return f.Kind == string(kind) }) {
				t.Errorf("%d of each sort: no %s", each, kind)
			}
		}
		for _, f := range short {
			if strings.HasPrefix(f.Text, "There are 1 ") {
				t.Errorf("%d of each sort: %s", each, f.Text)
			}
		}
	}
}
