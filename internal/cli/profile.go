package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"golang.org/x/term"

	"posthaste"
	"posthaste/internal/client"
	"posthaste/internal/sign"
)

// profileCommand is about servers that have names here.
type profileCommand struct {
	Add    addProfileCommand    `cmd:"" help:"Save a server's URL and token under a name."`
	Use    useProfileCommand    `cmd:"" help:"Choose the profile that commands use."`
	List   listProfilesCommand  `cmd:"" help:"List profiles."`
	Remove removeProfileCommand `cmd:"" help:"Remove a profile."`
}

// profiles is the file of profiles. It holds tokens, so no other user may read it.
type profiles struct {
	Current  string                   `yaml:"current,omitempty"`
	Profiles map[string]client.Server `yaml:"profiles"`
}

// profilePath returns where the file is, "" if the user has no such place.
func profilePath() string {
	directory, err := os.UserConfigDir()
	if err != nil {
		return ""
	}
	return filepath.Join(directory, "posthaste", "profiles.yaml")
}

// readProfiles returns the profiles, none if there is no file.
func readProfiles() (profiles, error) {
	all := profiles{Profiles: map[string]client.Server{}}
	text, err := os.ReadFile(profilePath())
	if errors.Is(err, fs.ErrNotExist) {
		return all, nil
	}
	if err == nil {
		err = yaml.Unmarshal(text, &all)
	}
	if err != nil {
		return all, fmt.Errorf("read the profiles of %s: %w", profilePath(), err)
	}
	return all, nil
}

// write replaces the file as a whole.
func (p profiles) write() error {
	text, err := yaml.Marshal(p)
	if err != nil {
		return err
	}
	path := profilePath()
	if path == "" {
		return posthaste.Invalidf("there is no place for profiles: set XDG_CONFIG_HOME or HOME")
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("write the profiles: %w", err)
	}
	file, err := os.CreateTemp(filepath.Dir(path), "profiles-*") // with 0600
	if err != nil {
		return fmt.Errorf("write the profiles: %w", err)
	}
	_, err = file.Write(text)
	err = errors.Join(err, file.Close())
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		_ = os.Remove(file.Name())
		return fmt.Errorf("write the profiles: %w", err)
	}
	return nil
}

// named returns a profile.
func (p profiles) named(name string) (client.Server, error) {
	found, is := p.Profiles[name]
	if !is && len(p.Profiles) == 0 {
		return found, posthaste.Invalidf("there is no profile %q, nor any other: add it with posthaste profile add", name)
	}
	if !is {
		return found, posthaste.Invalidf("there is no profile %q: give one of %s, or add it with posthaste profile add",
			name, strings.Join(slices.Sorted(maps.Keys(p.Profiles)), ", "))
	}
	return found, nil
}

// change changes the profiles, and says so.
func changeProfiles(t terminal, output, name, done string, change func(*profiles) error) error {
	all, err := readProfiles()
	if err == nil {
		err = change(&all)
	}
	if err == nil {
		err = all.write()
	}
	if err != nil {
		return err
	}
	return writeResult(t, output, map[string]string{done: name}, "profile %s %s", name, done)
}

type addProfileCommand struct {
	Name  string `arg:"" help:"Name of the profile. An existing one is replaced."`
	URL   string `env:"-" required:"" placeholder:"URL" help:"URL of the server."`
	Token string `env:"-" default:"-" placeholder:"TOKEN" help:"API token. Default: -, which asks for it or reads it from standard input, where other users of the machine cannot see it."`
	oneOutput
}

// Run adds the profile. The first one is used.
func (c *addProfileCommand) Run(t terminal) error {
	if c.Token == "-" {
		var err error
		if c.Token, err = readSecret(t, "token"); err != nil {
			return err
		}
	}
	server := client.Server{URL: c.URL, Token: c.Token}
	if _, err := client.New(client.Options{Server: server}); err != nil {
		return err
	}
	if c.Token == "" {
		return posthaste.Invalidf("token is empty: give the API token of the server")
	}
	return changeProfiles(t, c.Output, c.Name, "added", func(all *profiles) error {
		all.Profiles[c.Name] = server
		if all.Current == "" {
			all.Current = c.Name
		}
		return nil
	})
}

// readSecret reads a secret from standard input: unseen from a person, and whole from a program.
func readSecret(t terminal, name string) (string, error) {
	read := func() ([]byte, error) { return readAll("-") }
	if isTerminal(os.Stdin) {
		_, _ = fmt.Fprintf(t.Err, "%s: ", name)
		defer func() { _ = writeLine(t.Err, "") }()
		read = func() ([]byte, error) { return term.ReadPassword(int(os.Stdin.Fd())) }
	}
	text, err := read()
	if err != nil {
		return "", fmt.Errorf("read the %s: %w", name, err)
	}
	return string(bytes.TrimSpace(text)), nil
}

type useProfileCommand struct {
	Name string `arg:"" help:"Name of the profile."`
	oneOutput
}

// Run makes the profile the one that is used.
func (c *useProfileCommand) Run(t terminal) error {
	for _, variable := range []string{"POSTHASTE_URL", "QSTASH_URL"} { // as client.Find has them
		if os.Getenv(variable) != "" {
			_ = writeLine(t.Err, "%s is set, and comes before the profile: unset it to use the profile.", variable)
		}
	}
	return changeProfiles(t, c.Output, c.Name, "used", func(all *profiles) error {
		_, err := all.named(c.Name)
		all.Current = c.Name
		return err
	})
}

type removeProfileCommand struct {
	Name string `arg:"" help:"Name of the profile."`
	oneOutput
}

// Run removes the profile. If it was used, none is.
func (c *removeProfileCommand) Run(t terminal) error {
	return changeProfiles(t, c.Output, c.Name, "removed", func(all *profiles) error {
		_, err := all.named(c.Name)
		delete(all.Profiles, c.Name)
		if all.Current == c.Name {
			all.Current = ""
		}
		return err
	})
}

type listProfilesCommand struct{ oneOutput }

// Run prints the profiles, and not their tokens.
func (c *listProfilesCommand) Run(t terminal) error {
	all, err := readProfiles()
	if err != nil {
		return err
	}
	type listed struct {
		Name string `json:"name"`
		URL  string `json:"url"`
		User string `json:"user,omitempty"`
		Used bool   `json:"used"`
	}
	found, rows := []listed{}, [][]cell{}
	for _, name := range slices.Sorted(maps.Keys(all.Profiles)) {
		one := listed{Name: name, URL: all.Profiles[name].URL, Used: name == all.Current}
		if token, err := sign.ParseToken(all.Profiles[name].Token); err == nil {
			one.User = token.UserID
		}
		used := cell{}
		if one.Used {
			used = cell{text: "*", colour: good}
		}
		found, rows = append(found, one), append(rows, []cell{used, {text: name}, {text: one.User}, {text: one.URL}})
	}
	if c.Output == "json" {
		return writeJSON(t.Out, map[string]any{"profiles": found})
	}
	return columns{{"USED", 4}, {"PROFILE", 20}, {"USER", 20}, {name: "URL"}}.writeRows(t.Out, rows)
}
