package shellguard

import (
	"strconv"
	"strings"
)

// givesMode reports whether chmod's arguments give the permissions of a mode: 777, 0777, a=rwx and ugo+rwx are the same.
func givesMode(want string, args []word) bool {
	w, _ := permissions(want)
	for _, a := range args {
		if a.known {
			if got, ok := permissions(a.text); ok {
				return got == w // the others are files
			}
		}
	}
	return false
}

// permissions returns the permission bits a mode grants, and whether it is a mode. What a symbolic mode leaves as it is
// counts as not granted.
func permissions(mode string) (uint64, bool) {
	if n, err := strconv.ParseUint(mode, 8, 16); err == nil {
		return n & 0o777, true
	}
	var granted uint64
	for clause := range strings.SplitSeq(mode, ",") {
		at := strings.IndexAny(clause, "+-=")
		if at < 0 {
			return 0, false
		}
		who, bits := uint64(0), uint64(0)
		for _, c := range clause[:at] {
			part, ok := map[rune]uint64{'u': 0o700, 'g': 0o070, 'o': 0o007, 'a': 0o777}[c]
			if !ok {
				return 0, false
			}
			who |= part
		}
		if at == 0 {
			who = 0o777
		}
		for _, c := range clause[at+1:] {
			part, ok := map[rune]uint64{'r': 0o444, 'w': 0o222, 'x': 0o111, 'X': 0o111, 's': 0, 't': 0}[c]
			if !ok {
				return 0, false
			}
			bits |= part
		}
		if clause[at] != '-' {
			granted |= who & bits
		}
	}
	return granted, true
}
