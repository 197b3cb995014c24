module kaged.dev/tools

go 1.26.0

require (
	github.com/OpenPeeDeeP/depguard/v2 v2.2.1
	github.com/ashanbrown/forbidigo/v2 v2.3.0
	github.com/julz/importas v0.2.0
	github.com/polyfloyd/go-errorlint v1.8.0
	golang.org/x/tools v0.51.0
)

require (
	github.com/gobwas/glob v0.2.3 // indirect
	github.com/google/go-cmp v0.6.0 // indirect
	golang.org/x/mod v0.41.0 // indirect
	golang.org/x/sync v0.23.0 // indirect
	gopkg.in/yaml.v3 v3.0.1 // indirect
)
