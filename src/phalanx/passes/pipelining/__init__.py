"""Loops over `px.pipelined`: their loads run ahead through rings in shared memory, issued by a role of its own."""
