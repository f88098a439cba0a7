package app

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"

	"posthaste"
	"posthaste/internal/store/lsm"
)

// Permissions of a data directory and of the files in it: they hold message bodies, API
// tokens and signing keys, so no other user may read them. What the program creates has
// them by its umask; see internal/cli.
const (
	privateDir  fs.FileMode = 0o700
	privateFile fs.FileMode = 0o600

	othersMayAnything fs.FileMode = 0o077
	othersMayWrite    fs.FileMode = 0o002
)

// makePrivate takes all permissions on an existing data directory and its files from other
// users. It returns an error if it cannot, or if the directory is shared with something
// else, which would lose them too.
func makePrivate(dir string, logger *slog.Logger) error {
	root, err := os.OpenRoot(dir) // never follows a link out of the directory
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return err
	}
	if err := makeDirPrivate(root, entries, logger); err != nil {
		return err
	}
	for _, entry := range entries {
		if err := makeFilePrivate(root, entry); err != nil {
			return err
		}
	}
	return nil
}

func makeDirPrivate(root *os.Root, entries []fs.DirEntry, logger *slog.Logger) error {
	info, err := root.Stat(".")
	if err != nil || info.Mode()&othersMayAnything == 0 {
		return err
	}
	if !holdsOnlyStore(root.Name(), entries) {
		return posthaste.Invalidf("directory %s contains other files and is accessible to other users (mode %04o): give an empty directory, or make it private with chmod 700",
			root.Name(), info.Mode().Perm())
	}
	err = root.Chmod(".", privateDir)
	if err == nil || !errors.Is(err, fs.ErrPermission) {
		return err
	}
	// It belongs to somebody else, like the root of a volume that Kubernetes mounts. That
	// the files in it are private is enough, unless others could replace them.
	if info.Mode()&othersMayWrite != 0 {
		return posthaste.Invalidf("directory %s belongs to another user and is writable by everybody (mode %04o): give a directory inside it, or remove the permission with chmod o-w",
			root.Name(), info.Mode().Perm())
	}
	logger.Warn("data.not_private", "directory", root.Name(), "mode", fmt.Sprintf("%04o", info.Mode().Perm()),
		"consequence", "other users can list the files but not read them")
	return nil
}

// holdsOnlyStore reports whether a directory has a store in it, be it a damaged one, or
// nothing. The root of a file system has lost+found, and no more if it is new.
func holdsOnlyStore(dir string, entries []fs.DirEntry) bool {
	if exists, err := lsm.Exists(dir); err != nil || exists {
		return true
	}
	has := func(name string) bool {
		return slices.ContainsFunc(entries, func(entry fs.DirEntry) bool { return entry.Name() == name })
	}
	return len(entries) == 0 || has(lsm.GuardFile) || len(entries) == 1 && has("lost+found")
}

func makeFilePrivate(root *os.Root, entry fs.DirEntry) error {
	info, err := entry.Info()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil // a server that uses the directory has removed it
	case err != nil:
		return err
	case !info.Mode().IsRegular() || info.Mode()&othersMayAnything == 0:
		return nil
	}
	err = root.Chmod(entry.Name(), privateFile)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	directory, statErr := root.Stat(".")
	if statErr == nil && directory.Mode()&othersMayAnything == 0 {
		return nil // nobody else gets to it
	}
	return posthaste.Invalidf("file %s/%s may be read by other users (mode %04o), and this user cannot change that: %v",
		root.Name(), entry.Name(), info.Mode().Perm(), err)
}
