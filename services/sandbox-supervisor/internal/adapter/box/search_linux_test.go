package box

import (
	"testing"

	"kaged.dev/pkg/cage"
)

// PATH keeps folders that can exist in the cage: the system's, granted ones and their parents, and the cage's own.
// Entries that are not clean absolute paths stay.
func TestSearched(t *testing.T) {
	t.Parallel()
	grants := []cage.Grant{{Path: "/home/me/project", Dir: true}, {Path: "/srv/tools/lint"}}
	at := places([]string{"/usr", "/bin"}, &cage.View{Grants: grants})
	for path, want := range map[string]string{
		"/root/go/bin:/usr/local/bin:/usr/bin:/bin": "/usr/local/bin:/usr/bin:/bin",
		"/home/me/bin:/home/me/project/bin":         "/home/me/project/bin",
		"/srv/tools:/srv/other:/usr/bin/":           "/srv/tools:/usr/bin/",
		"/tmp/x:/home/agent/go/bin:/home/agentx":    "/tmp/x:/home/agent/go/bin",
		"bin:.::/opt/x/../y:/opt/x":                 "bin:.::/opt/x/../y",
		"/usrlocal:/usr":                            "/usr",
		"/opt/only":                                 "/opt/only",
		"/usr/bin:/bin":                             "/usr/bin:/bin",
		"":                                          "",
	} {
		if got := searched(path, at); got != want {
			t.Errorf("%q becomes %q, want %q", path, got, want)
		}
	}
}
