package openapitest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"posthaste/internal/openapi"
)

// schemas compiles the JSON Schemas of the description: as they are written, and for
// answers with a refusal of all that they do not mention.
type schemas struct {
	written, strict *compiler
}

// compiler compiles schemas of a document, and those that stand in no component.
type compiler struct {
	*jsonschema.Compiler
	url   string
	loose int // schemas that were added
}

func newSchemas() (*schemas, error) {
	written, err := decode()
	if err != nil {
		return nil, err
	}
	strict, err := decode()
	if err != nil {
		return nil, err
	}
	closeObjects(strict, parts(strict))
	s := &schemas{newCompiler("written"), newCompiler("strict")}
	if err := s.written.AddResource(s.written.url, written); err != nil {
		return nil, err
	}
	return s, s.strict.AddResource(s.strict.url, strict)
}

func newCompiler(name string) *compiler {
	return &compiler{Compiler: jsonschema.NewCompiler(), url: "https://posthaste.invalid/" + name}
}

// decode reads the description as JSON has it.
func decode() (any, error) {
	var document any
	if err := yaml.Unmarshal(openapi.Source, &document); err != nil {
		return nil, err
	}
	return asJSON(document)
}

func asJSON(value any) (any, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	return jsonschema.UnmarshalJSON(bytes.NewReader(text))
}

// answer compiles a schema at a place of the document, strictly.
func (s *schemas) answer(pointer string) (*jsonschema.Schema, error) {
	return s.strict.Compile(s.strict.url + "#" + pointer)
}

// answers compiles the schemas of an answer by media type.
func (s *schemas) answers(body *openapi.Body) (map[string]*jsonschema.Schema, error) {
	forms := make(map[string]*jsonschema.Schema)
	for _, form := range body.Content {
		schema, err := s.strict.add(form.Value.Schema)
		if err != nil {
			return nil, fmt.Errorf("answer: %w", err)
		}
		forms[form.Name] = schema
	}
	return forms, nil
}

// requestBody compiles the schema of a body, nil if it is any bytes.
func (s *schemas) requestBody(body *openapi.Body) (*jsonschema.Schema, error) {
	form, isJSON := body.Content.Get("application/json")
	if !isJSON {
		return nil, nil
	}
	schema, err := s.written.add(form.Schema)
	if err != nil {
		return nil, fmt.Errorf("body: %w", err)
	}
	return schema, nil
}

// parameter compiles the schema of a parameter.
func (s *schemas) parameter(p *openapi.Parameter) (*jsonschema.Schema, error) {
	schema, err := s.written.add(p.Schema)
	if err != nil {
		return nil, fmt.Errorf("parameter %s: %w", p.Name, err)
	}
	return schema, nil
}

// add compiles a schema that is written somewhere in the document. Its references lead
// to the components.
func (c *compiler) add(schema *openapi.Schema) (*jsonschema.Schema, error) {
	var source any
	if err := schema.Source.Decode(&source); err != nil {
		return nil, err
	}
	value, err := asJSON(source)
	if err != nil {
		return nil, err
	}
	if strings.HasSuffix(c.url, "strict") {
		closeObjects(value, nil)
	}
	absolute(value, c.url)
	c.loose++
	url := fmt.Sprintf("%s/%d", c.url, c.loose)
	if err := c.AddResource(url, value); err != nil {
		return nil, err
	}
	return c.Compile(url)
}

// absolute makes references lead to the document.
func absolute(value any, url string) {
	walk(value, func(node map[string]any) {
		if ref, ok := node["$ref"].(string); ok && strings.HasPrefix(ref, "#") {
			node["$ref"] = url + ref
		}
	})
}

// parts returns the components that are parts of others, by allOf: they know only some
// of the members of an object.
func parts(document any) map[any]bool {
	found := map[any]bool{}
	walk(document, func(node map[string]any) {
		all, _ := node["allOf"].([]any)
		for _, part := range all {
			if part, ok := part.(map[string]any); ok {
				found[part["$ref"]] = true
			}
		}
	})
	return found
}

// closeObjects lets the schemas of objects accept no members but those they mention,
// except for parts.
func closeObjects(value any, parts map[any]bool) {
	closeObject(value)
	document, _ := value.(map[string]any)
	components, _ := document["components"].(map[string]any)
	schemas, _ := components["schemas"].(map[string]any)
	for name, schema := range schemas {
		if schema := schema.(map[string]any); parts["#/components/schemas/"+name] {
			delete(schema, "unevaluatedProperties")
		}
	}
}

func closeObject(value any) {
	switch value := value.(type) {
	case []any:
		for _, item := range value {
			closeObject(item)
		}
	case map[string]any:
		_, isObject := value["properties"].(map[string]any)
		_, isWhole := value["allOf"]
		_, isOpen := value["additionalProperties"]
		if (isObject || isWhole) && !isOpen {
			value["unevaluatedProperties"] = false
		}
		for name, item := range value {
			if name != "allOf" {
				closeObject(item)
				continue
			}
			for _, part := range item.([]any) { // the whole is closed, and so not its parts
				closeObject(part.(map[string]any)["properties"])
			}
		}
	}
}

// walk visits all objects.
func walk(value any, visit func(node map[string]any)) {
	switch value := value.(type) {
	case []any:
		for _, item := range value {
			walk(item, visit)
		}
	case map[string]any:
		visit(value)
		for _, item := range value {
			walk(item, visit)
		}
	}
}
