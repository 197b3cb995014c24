package memory

import (
	"slices"
	"strings"
	"testing"
)

// Only clean pages of the program's file are released: no page modified by the loader or a debugger, no writable page,
// no page of another file.
func TestOnlyPagesOfTheFileAreLetGo(t *testing.T) {
	t.Parallel()
	smaps := `00400000-00402000 r--p 00000000 fe:00 99 /opt/my kaged
Size:                  8 kB
Anonymous:             0 kB
00402000-00502000 r-xp 00002000 fe:00 99 /opt/my kaged
Anonymous:             0 kB
00502000-00602000 r-xp 00102000 fe:00 99 /opt/my kaged
Anonymous:             4 kB
00602000-00612000 r--p 00202000 fe:00 99 /opt/my kaged
Anonymous:            68 kB
00612000-00622000 rw-p 00212000 fe:00 99 /opt/my kaged
Anonymous:             0 kB
00700000-00710000 r-xp 00000000 fe:00 98 /lib/libc.so.6
Anonymous:             0 kB
00800000-00810000 rw-p 00000000 00:00 0
Anonymous:             0 kB
00900000-00910000 r--p 00000000 fe:00 99 /opt/my kaged (deleted)
Anonymous:             0 kB
`
	want := []part{{0x400000, 0x2000}, {0x402000, 0x100000}}
	if got := imageParts(strings.NewReader(smaps), "/opt/my kaged"); !slices.Equal(got, want) {
		t.Errorf("got %x, want %x", got, want)
	}
}
