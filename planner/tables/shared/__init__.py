"""What all processes of a gateway keep together: files that are named by what their content depends on."""
