package posthaste

// CheckName returns an Error with CodeInvalid unless the text can name a queue, a
// URL group or a schedule: letters, digits, "-", "_" and ".".
func CheckName(what, name string) error {
	if name == "" {
		return Invalidf("%s must not be empty", what)
	}
	if err := CheckLen(what, name, MaxNameLen); err != nil {
		return err
	}
	for _, r := range name {
		if !isNameRune(r) {
			return Invalidf("%s %q is invalid: letters, digits, hyphens, underscores and periods are accepted", what, clip(name))
		}
	}
	return nil
}

// CheckNewName is CheckName for what may be made under the name. Clients take "." and ".." out
// of the path of a request, so that nothing could be asked of what is called so.
func CheckNewName(what, name string) error {
	if name == "." || name == ".." {
		return Invalidf("%s %q is invalid: HTTP clients remove it from a path, add a letter or a digit", what, name)
	}
	return CheckName(what, name)
}

func isNameRune(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '-' || r == '_' || r == '.'
}
