package cli

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// wantedTypes are the types that a file of wanted things is read into, by the names that
// the YAML package gives them in its errors.
var wantedTypes = map[string]struct {
	thing string
	of    reflect.Type
}{
	"cli.wanted":         {"the file", reflect.TypeFor[wanted]()},
	"cli.wantedQueue":    {"a queue", reflect.TypeFor[wantedQueue]()},
	"cli.wantedGroup":    {"a URL group", reflect.TypeFor[wantedGroup]()},
	"cli.endpoint":       {"an endpoint", reflect.TypeFor[endpoint]()},
	"cli.wantedSchedule": {"a schedule", reflect.TypeFor[wantedSchedule]()},
	"cli.wantedFlowKey":  {"a flow-control key", reflect.TypeFor[wantedFlowKey]()},
}

var (
	unknownMember = regexp.MustCompile(`^line (\d+): field (.*) not found in type (\S+)$`)
	wrongValue    = regexp.MustCompile(`^line (\d+): cannot unmarshal !!.* into (\S+)$`)
)

// yamlFaults returns what is wrong with a file, in the words of the file: the YAML package
// writes of the types of this one.
func yamlFaults(text []byte, err error) []string {
	failed, is := errors.AsType[*yaml.TypeError](err)
	if !is {
		return []string{strings.TrimPrefix(err.Error(), "yaml: ")}
	}
	lines := strings.Split(string(text), "\n")
	var faults []string
	for _, fault := range failed.Errors {
		if match := unknownMember.FindStringSubmatch(fault); match != nil {
			if in, known := wantedTypes[match[3]]; known {
				fault = fmt.Sprintf("line %s: %q is not a member of %s: %s are accepted", match[1], match[2], in.thing, strings.Join(members(in.of), ", "))
			}
		} else if match := wrongValue.FindStringSubmatch(fault); match != nil {
			if n, err := strconv.Atoi(match[1]); err == nil && n <= len(lines) {
				line := strings.TrimPrefix(strings.TrimSpace(lines[n-1]), "- ")
				fault = fmt.Sprintf("line %d: %q does not have %s as its value", n, line, yamlKind(match[2]))
			}
		}
		faults = append(faults, fault)
	}
	return faults
}

// members returns the names that a struct's members have in YAML.
func members(of reflect.Type) []string {
	var names []string
	for field := range slices.Values(reflect.VisibleFields(of)) {
		name, _, _ := strings.Cut(field.Tag.Get("yaml"), ",")
		names = append(names, name)
	}
	return names
}

// yamlKind returns what a file calls the values of a Go type.
func yamlKind(goType string) string {
	switch {
	case strings.HasPrefix(goType, "[]"):
		return "a list"
	case goType == "int":
		return "a whole number"
	case goType == "bool":
		return "true or false"
	case goType == "string":
		return "a text"
	}
	return "names with values"
}
