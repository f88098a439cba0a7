package openapi

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Document is the description, as much of OpenAPI as it uses. Names keep the order in
// which they are written: it is the order in which people read.
type Document struct {
	Info struct {
		Title       string `yaml:"title"`
		Summary     string `yaml:"summary"`
		Description string `yaml:"description"`
	} `yaml:"info"`
	Tags       []Tag              `yaml:"tags"`
	Paths      Ordered[*PathItem] `yaml:"paths"`
	Components struct {
		Parameters    map[string]*Parameter `yaml:"parameters"`
		RequestBodies map[string]*Body      `yaml:"requestBodies"`
		Responses     map[string]*Body      `yaml:"responses"`
		Schemas       Ordered[*Schema]      `yaml:"schemas"`
	} `yaml:"components"`
}

// Tag is a group of operations.
type Tag struct {
	Name        string `yaml:"name"`
	Description string `yaml:"description"`
}

// PathItem is what can be done at a path.
type PathItem struct {
	Parameters []*Parameter `yaml:"parameters"` // of all its operations
	Get        *Operation   `yaml:"get"`
	Post       *Operation   `yaml:"post"`
	Put        *Operation   `yaml:"put"`
	Patch      *Operation   `yaml:"patch"`
	Options    *Operation   `yaml:"options"`
	Delete     *Operation   `yaml:"delete"`
}

// Operation is a method at a path. Where it comes from Operations, its references are
// resolved, but for those of schemas, and its parameters are all there are.
type Operation struct {
	Method      string         `yaml:"-"`
	Path        string         `yaml:"-"`
	ID          string         `yaml:"operationId"`
	Tags        []string       `yaml:"tags"`
	Summary     string         `yaml:"summary"`
	Description string         `yaml:"description"`
	Parameters  []*Parameter   `yaml:"parameters"`
	RequestBody *Body          `yaml:"requestBody"`
	Responses   Ordered[*Body] `yaml:"responses"` // by status, or "default"
}

// Parameter is a part of the path, of the query or of the header.
type Parameter struct {
	Ref         string  `yaml:"$ref"`
	Name        string  `yaml:"name"`
	In          string  `yaml:"in"`
	Required    bool    `yaml:"required"`
	Description string  `yaml:"description"`
	Schema      *Schema `yaml:"schema"`
	RestOfPath  bool    `yaml:"x-rest-of-path"` // it may hold slashes
	Alias       string  `yaml:"x-alias"`        // another name it may be given by
}

// Body is the body of a request or an answer.
type Body struct {
	Ref         string          `yaml:"$ref"`
	Description string          `yaml:"description"`
	Required    bool            `yaml:"required"`
	Content     Ordered[*Media] `yaml:"content"` // by media type
}

// Media is a form of a body.
type Media struct {
	Schema *Schema `yaml:"schema"` // nil: any bytes
}

// Schema is as much of a JSON Schema as a reader is shown.
type Schema struct {
	Ref         string           `yaml:"$ref"`
	Type        Types            `yaml:"type"`
	Description string           `yaml:"description"`
	Enum        []string         `yaml:"enum"`
	Required    []string         `yaml:"required"`
	Properties  Ordered[*Schema] `yaml:"properties"`
	Additional  *Schema          `yaml:"additionalProperties"`
	Items       *Schema          `yaml:"items"`
	AllOf       []*Schema        `yaml:"allOf"`
	AnyOf       []*Schema        `yaml:"anyOf"`

	Source *yaml.Node `yaml:"-"` // all of it
}

// UnmarshalYAML implements yaml.Unmarshaler.
func (s *Schema) UnmarshalYAML(node *yaml.Node) error {
	type shown Schema
	s.Source = node
	return node.Decode((*shown)(s))
}

// Types are the JSON types that a value may have.
type Types []string

// UnmarshalYAML implements yaml.Unmarshaler: one type may stand alone.
func (t *Types) UnmarshalYAML(node *yaml.Node) error {
	if node.Kind == yaml.ScalarNode {
		*t = Types{node.Value}
		return nil
	}
	return node.Decode((*[]string)(t))
}

// Ordered is a mapping in the order in which it is written.
type Ordered[T any] []Entry[T]

// Entry is a name and what it stands for.
type Entry[T any] struct {
	Name  string
	Value T
}

// UnmarshalYAML implements yaml.Unmarshaler.
func (o *Ordered[T]) UnmarshalYAML(node *yaml.Node) error {
	for i := 0; i+1 < len(node.Content); i += 2 {
		entry := Entry[T]{Name: node.Content[i].Value}
		if err := node.Content[i+1].Decode(&entry.Value); err != nil {
			return err
		}
		*o = append(*o, entry)
	}
	return nil
}

// Get returns what a name stands for.
func (o Ordered[T]) Get(name string) (value T, ok bool) {
	i := slices.IndexFunc(o, func(e Entry[T]) bool { return e.Name == name })
	if i < 0 {
		return value, false
	}
	return o[i].Value, true
}

// Parse reads the description.
func Parse() (*Document, error) {
	var d Document
	if err := yaml.Unmarshal(Source, &d); err != nil {
		return nil, fmt.Errorf("read the description of the API: %w", err)
	}
	return &d, nil
}

// Operations returns all operations in the order in which they are written.
func (d *Document) Operations() []*Operation {
	var all []*Operation
	for _, path := range d.Paths {
		item := path.Value
		for _, of := range []struct {
			method    string
			operation *Operation
		}{{"GET", item.Get}, {"POST", item.Post}, {"PUT", item.Put}, {"PATCH", item.Patch}, {"DELETE", item.Delete}, {"OPTIONS", item.Options}} {
			if of.operation != nil {
				all = append(all, d.resolve(of.method, path.Name, item, *of.operation))
			}
		}
	}
	return all
}

// resolve returns an operation with what its references stand for.
func (d *Document) resolve(method, path string, item *PathItem, o Operation) *Operation {
	o.Method, o.Path = method, path
	o.Parameters = slices.Concat(item.Parameters, o.Parameters)
	for i, p := range o.Parameters {
		o.Parameters[i] = referred(d.Components.Parameters, p.Ref, p)
	}
	if o.RequestBody != nil {
		o.RequestBody = referred(d.Components.RequestBodies, o.RequestBody.Ref, o.RequestBody)
	}
	o.Responses = slices.Clone(o.Responses)
	for i, r := range o.Responses {
		o.Responses[i].Value = referred(d.Components.Responses, r.Value.Ref, r.Value)
	}
	return &o
}

// referred returns what a reference stands for, or the value itself without one. A
// reference that leads nowhere is nil.
func referred[T any](components map[string]*T, ref string, value *T) *T {
	if ref == "" {
		return value
	}
	return components[ComponentName(ref)]
}

// ComponentName returns the name at the end of a reference.
func ComponentName(ref string) string { return ref[strings.LastIndexByte(ref, '/')+1:] }
