// Command protogen turns one .proto file into Go. It compiles the file with
// protocompile and hands the result to protoc-gen-go, so that no protoc binary
// has to be installed. Run it in the folder of the file, with the command that starts
// the plugin:
//
//	protogen hapi.proto go tool protoc-gen-go
//
// # Words
//
//	plugin  the program that writes Go from a compiled .proto file
package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: protogen <file.proto> <plugin command>")
		os.Exit(2)
	}
	if err := run(context.Background(), os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "protogen:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, file string, plugin []string) error {
	request, err := compile(ctx, file)
	if err != nil {
		return err
	}
	in, err := proto.Marshal(request)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, plugin[0], plugin[1:]...)
	cmd.Stdin = bytes.NewReader(in)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("protoc-gen-go: %w", err)
	}
	var response pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(out, &response); err != nil {
		return err
	}
	if response.Error != nil {
		return fmt.Errorf("protoc-gen-go: %s", response.GetError())
	}
	for _, f := range response.File {
		if err := os.WriteFile(f.GetName(), []byte(f.GetContent()), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// compile parses file and its imports, and lists them imports first, as a
// code generator expects.
func compile(ctx context.Context, file string) (*pluginpb.CodeGeneratorRequest, error) {
	compiler := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(&protocompile.SourceResolver{}),
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	files, err := compiler.Compile(ctx, file)
	if err != nil {
		return nil, err
	}
	var descriptors []*descriptorpb.FileDescriptorProto
	imports := files[0].Imports()
	for i := range imports.Len() {
		descriptors = append(descriptors, protoutil.ProtoFromFileDescriptor(imports.Get(i).FileDescriptor))
	}
	descriptors = append(descriptors, protoutil.ProtoFromFileDescriptor(files[0]))
	return &pluginpb.CodeGeneratorRequest{
		FileToGenerate: []string{file},
		Parameter:      proto.String("paths=source_relative"),
		ProtoFile:      descriptors,
	}, nil
}
