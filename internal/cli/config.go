package cli

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v3"
)

// envPrefix begins the name of every environment variable that is a setting:
// POSTHASTE_LOG_LEVEL is --log-level.
const envPrefix = "POSTHASTE"

// configFlag is the name of the flag that names the file. It cannot be set in
// the file itself.
const configFlag = "config"

// configFile is the path of a YAML file of settings. Its keys are the names of
// the command's flags. What the environment or the command line says is not
// taken from the file.
type configFile string

// BeforeResolve reads the file as soon as its name is known. Commands other
// than the selected one are passed over: with the name in the environment,
// their flags hold it too.
func (configFile) BeforeResolve(parsed *kong.Context, trace *kong.Path) error {
	selected := parsed.Selected()
	if selected == nil || !slices.Contains(selected.Flags, trace.Flag) {
		return nil
	}
	path := string(parsed.FlagValue(trace.Flag).(configFile))
	values, err := readSettings(path)
	if err != nil {
		return err
	}
	if err := checkNames(path, values, selected.Flags); err != nil {
		return err
	}
	parsed.AddResolver(fileSettings(values))
	return nil
}

// readSettings returns the values of a YAML file by name: texts, and lists of
// texts. Numbers stay as they are written, units included.
func readSettings(path string) (map[string]any, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read settings of config: %w", err)
	}
	values, err := decodeSettings(data)
	if err != nil {
		return nil, fmt.Errorf("read settings: %s: %w", path, err)
	}
	return values, nil
}

func decodeSettings(data []byte) (map[string]any, error) {
	var nodes map[string]yaml.Node
	err := yaml.Unmarshal(data, &nodes)
	if err != nil {
		return nil, fmt.Errorf("not a YAML mapping of settings: %w", err)
	}
	values := make(map[string]any, len(nodes))
	for name, node := range nodes {
		if values[name], err = settingValue(&node); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return values, nil
}

func settingValue(node *yaml.Node) (any, error) {
	isText := func(node *yaml.Node) bool { return node.Kind == yaml.ScalarNode && node.Tag != "!!null" }
	switch {
	case isText(node):
		return node.Value, nil
	case node.Kind != yaml.SequenceNode:
		return nil, fmt.Errorf("line %d is neither a scalar value nor a list of scalars", node.Line)
	}
	texts := make([]any, len(node.Content))
	for i, item := range node.Content {
		if !isText(item) {
			return nil, fmt.Errorf("line %d is not a scalar value", item.Line)
		}
		texts[i] = item.Value
	}
	return texts, nil
}

// checkNames refuses a file with a setting the command does not have: a typing
// error must not pass for the default. It refuses a list for a setting that has
// one value, too.
func checkNames(path string, values map[string]any, flags []*kong.Flag) error {
	known := make(map[string]*kong.Flag)
	for _, flag := range flags {
		if flag.Name != configFlag && flag.Name != "help" {
			known[flag.Name] = flag
		}
	}
	for name, value := range values {
		flag := known[name]
		if flag == nil {
			return fmt.Errorf("%s: unknown setting %q, known settings are %s", path, name,
				strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		}
		if _, list := value.([]any); list && !flag.IsSlice() {
			return fmt.Errorf("%s: %s is a list, but takes a single value", path, name)
		}
	}
	return nil
}

// fileSettings gives flags their values from a file. Kong asks resolvers before it looks at
// the environment; this one gives way to it.
func fileSettings(values map[string]any) kong.Resolver {
	return kong.ResolverFunc(func(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
		if variableOf(flag) != "" {
			return nil, nil
		}
		return values[flag.Name], nil
	})
}

// variableOf returns the environment variable that gives a flag its value, "" if none does.
func variableOf(flag *kong.Flag) string {
	for _, name := range flag.Envs {
		if _, set := os.LookupEnv(name); set {
			return name
		}
	}
	return ""
}

// isGiven reports whether a flag of the selected command has a value that is not its default.
func isGiven(parsed *kong.Context, name string) bool {
	for _, flag := range parsed.Selected().Flags {
		if flag.Name == name {
			return variableOf(flag) != "" || slices.ContainsFunc(parsed.Path, func(step *kong.Path) bool { return step.Flag == flag })
		}
	}
	return false
}

// nameSources adds to an error about settings which environment variables, or which file,
// their values come from, unless that is the command line.
func nameSources(err error) error {
	failed, ok := errors.AsType[*kong.ParseError](err)
	if !ok || failed.Context == nil || failed.Context.Selected() == nil {
		return err
	}
	var sources []string
	for _, flag := range failed.Context.Selected().Flags {
		source := sourceOf(failed.Context, flag, err.Error())
		if source != "" && !strings.Contains(err.Error(), source) && !slices.Contains(sources, source) {
			sources = append(sources, source)
		}
	}
	if len(sources) == 0 {
		return err
	}
	return fmt.Errorf("%w (from %s)", err, strings.Join(sources, ", "))
}

// sourceOf returns where the value of a flag comes from that a sentence names, "" if it does
// not name it, or if it was given on the command line or not at all.
func sourceOf(parsed *kong.Context, flag *kong.Flag, sentence string) string {
	if !regexp.MustCompile(`(^|[^\w-])(--)?` + regexp.QuoteMeta(flag.Name) + `($|[^\w-])`).MatchString(sentence) {
		return ""
	}
	at := slices.IndexFunc(parsed.Path, func(step *kong.Path) bool { return step.Flag == flag })
	if at >= 0 && !parsed.Path[at].Resolved {
		return ""
	}
	if variable := variableOf(flag); variable != "" {
		return variable
	}
	if at < 0 && !strings.HasPrefix(sentence, "--"+flag.Name+":") { // a value that cannot be read is no step
		return ""
	}
	for _, other := range parsed.Selected().Flags {
		if other.Name == configFlag {
			return string(parsed.FlagValue(other).(configFile))
		}
	}
	return ""
}
