package shellguard

import (
	"strconv"
	"strings"
)

// givesMode reports whether chmod's arguments grant the permissions of a mode: 777, 0777, a=rwx and ugo+rwx are equal.
func givesMode(want string, args []word) bool {
	w, _ := permissions(want)
	for _, a := range args {
		if a.known {
			if got, ok := permissions(a.text); ok {
				return got == w // the other arguments are files
			}
		}
	}
	return false
}

// letters are the permissions that letters of a mode grant to all users.
var letters = map[byte]uint64{'r': 0o444, 'w': 0o222, 'x': 0o111, 'X': 0o111, 's': 0, 't': 0}

// permissions returns the permission bits that a mode grants, and whether it is a mode. Bits that a symbolic mode
// leaves unchanged count as not granted.
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
		who, ok := whose(clause[:at])
		if !ok {
			return 0, false
		}
		for rest := clause[at:]; rest != ""; {
			end := 1 + len(rest[1:])
			if next := strings.IndexAny(rest[1:], "+-="); next >= 0 {
				end = 1 + next
			}
			bits, ok := bitsOf(rest[1:end], granted)
			if !ok {
				return 0, false
			}
			switch bits &= who; rest[0] {
			case '+':
				granted |= bits
			case '-':
				granted &^= bits
			case '=':
				granted = granted&^who | bits
			}
			rest = rest[end:]
		}
	}
	return granted, true
}

// whose returns the bits of the users in a clause. An empty list means all.
func whose(who string) (uint64, bool) {
	var bits uint64
	for _, c := range who {
		part, ok := map[rune]uint64{'u': 0o700, 'g': 0o070, 'o': 0o007, 'a': 0o777}[c]
		if !ok {
			return 0, false
		}
		bits |= part
	}
	if who == "" {
		bits = 0o777
	}
	return bits, true
}

// bitsOf returns the bits that a clause's letters grant to all users: permissions, the present ones of u, g or o, or a
// number.
func bitsOf(text string, granted uint64) (uint64, bool) {
	if n, err := strconv.ParseUint(text, 8, 16); err == nil {
		return n & 0o777, true
	}
	if len(text) == 1 {
		if shift, copies := map[string]uint{"u": 6, "g": 3, "o": 0}[text]; copies {
			return (granted >> shift & 7) * 0o111, true
		}
	}
	var bits uint64
	for i := range len(text) {
		part, ok := letters[text[i]]
		if !ok {
			return 0, false
		}
		bits |= part
	}
	return bits, true
}
