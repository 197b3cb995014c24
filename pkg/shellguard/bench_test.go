package shellguard_test

import "testing"

// BenchmarkText measures the judgement of one command.
func BenchmarkText(b *testing.B) {
	g := newGuard(b).In("/src/p", "/src/p")
	for name, text := range map[string]string{
		"usual":  `cd sub && go test ./... 2>&1 | tail -5`,
		"nested": `bash -c "find . -name '*.go' -exec sh -c 'gofmt -l \"$1\"' _ {} \;" > out.txt`,
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				g.Text(text)
			}
		})
	}
}
